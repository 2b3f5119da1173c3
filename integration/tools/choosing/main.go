// Command choosing draws how many requests of the same demand each policy of package limit grants,
// for docs/choosing.md:
//
//	go run ./integration/tools/choosing
//
// It runs the models with which the tests compare the policies.
package main

import (
	"errors"
	"log"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/rratelimiter/rratelimiter/integration/tools/picture"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
)

const (
	step  = 50 * time.Millisecond // of the demand
	steps = 400                   // 20 seconds
)

// demand returns the number of requests in a step. It begins with ten per second and a burst. Then come
// one request, and two bursts around the end of its window. It ends with three times the permits, and
// ten per second again.
func demand(i int) int {
	switch at := time.Duration(i) * step; {
	case at < 4*time.Second && i%2 == 0:
		return 1
	case at == 5*time.Second, at == 8950*time.Millisecond, at == 9050*time.Millisecond:
		return 30
	case at == 8*time.Second:
		return 1
	case at >= 12*time.Second && at < 16*time.Second && i%2 == 0:
		return 3
	case at >= 17*time.Second && i%2 == 0:
		return 1
	}
	return 0
}

// second is a second in the time of the models.
const second = int64(time.Second / time.Microsecond)

// drawings are the policies, all of ten permits, a second but for InFlight. With a wait, requests wait in line for at most
// two seconds, and the first one leaves when its wait is over.
var drawings = []struct {
	file, title string
	model       policymodel.Model
	wait        func(m policymodel.Model, now int64) int64
}{
	{"fixedwindow", "FixedWindow{10, 1s}", &policymodel.FixedWindow{Permits: 10, Interval: second}, nil},
	{"aligned", "FixedWindow{10, 1s, Aligned}",
		&policymodel.FixedWindow{Permits: 10, Interval: second, Aligned: true}, nil},
	{"slidingwindow", "SlidingWindow{10, 1s, 10 cells}",
		&policymodel.SlidingWindow{Permits: 10, Cell: second / 10, Cells: 10}, nil},
	{"slidinglog", "SlidingLog{10, 1s}", &policymodel.SlidingLog{Permits: 10, Interval: second}, nil},
	{"tokenbucket", "TokenBucket{20, 10, 1s}",
		&policymodel.TokenBucket{Capacity: 20, Refill: 10, Interval: second}, nil},
	{"leakybucket", "LeakyBucket{20, 10, 1s}, by TryAcquireWithin",
		&policymodel.TokenBucket{Capacity: 20, Refill: 10, Interval: second}, policymodel.Model.Reset},
	{"smooth", "Smooth{10, 1s}, by TryAcquireWithin", policymodel.NewSmooth(10, 1, 0), waitForOne},
	{"inflight", "InFlight{10, 1m}, calls of 500 ms, by TryAcquireWithin",
		&policymodel.InFlight{Permits: 10, Lease: second / 2}, waitForOne}, // as if each returned by itself
	{"warmup", "Smooth{10, 1s, WarmUp 2s}, by TryAcquireWithin", policymodel.NewSmooth(10, 0, 2e6), waitForOne},
}

func waitForOne(m policymodel.Model, now int64) int64 { return m.Wait(now, 1) }

func main() {
	for _, d := range drawings {
		granted := make([]int, steps) // in each step
		var waiting []int             // the step in which each request came
		for i := range granted {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * step).UnixMicro()
			waiting = append(waiting, slices.Repeat([]int{i}, demand(i))...)
			for len(waiting) > 0 && (d.wait == nil || d.wait(d.model, now) <= 0) && policymodel.Take(d.model, now, 1) {
				waiting, granted[i] = waiting[1:], granted[i]+1
			}
			waiting = slices.DeleteFunc(waiting, func(since int) bool {
				return d.wait == nil || time.Duration(i-since)*step >= 2*time.Second
			})
		}
		if err := draw(filepath.Join("docs/choosing", d.file+".svg"), d.title, granted); err != nil {
			log.Fatal(err)
		}
	}
}

// draw shows the demand, the granted requests, and those granted in the second before.
func draw(path, title string, granted []int) error {
	p := picture.New(title, "seconds", "requests")
	p.Y.Min, p.Y.Max = 0, 32
	perSecond := int(time.Second / step)
	last := 0
	var wanted, got, sum plotter.XYs
	for i, count := range granted {
		if last += count; i >= perSecond {
			last -= granted[i-perSecond]
		}
		at := float64(i) * step.Seconds()
		wanted = append(wanted, plotter.XY{X: at, Y: float64(demand(i))})
		got = append(got, plotter.XY{X: at, Y: float64(count)})
		sum = append(sum, plotter.XY{X: at + step.Seconds(), Y: float64(last)})
	}
	return errors.Join(picture.Area(p, picture.Grey, "requested in 50 ms", wanted),
		picture.Area(p, picture.Colors[1], "granted in 50 ms", got),
		picture.Line(p, 2, "granted in a second", sum), picture.Save(path, 200, p))
}
