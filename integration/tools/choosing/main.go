// Command choosing draws how many requests of the same demand each policy of package limit grants,
// for docs/choosing.md:
//
//	go run ./integration/tools/choosing
//
// It runs the policies on an in-memory Redis with an injected clock.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"gonum.org/v1/plot/plotter"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/picture"
	"github.com/rratelimiter/rratelimiter/limit"
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

// drawings are the policies, all of ten permits a second.
var drawings = []struct {
	file, title string
	policy      limit.Policy
}{
	{"fixedwindow", "FixedWindow{10, 1s}", limit.FixedWindow{Permits: 10, Interval: time.Second}},
	{"aligned", "FixedWindow{10, 1s, Aligned}", limit.FixedWindow{Permits: 10, Interval: time.Second, Aligned: true}},
	{"slidingwindow", "SlidingWindow{10, 1s, 10 cells}", limit.SlidingWindow{Permits: 10, Interval: time.Second}},
	{"slidinglog", "SlidingLog{10, 1s}", limit.SlidingLog{Permits: 10, Interval: time.Second}},
	{"tokenbucket", "TokenBucket{20, 10, 1s}", limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Second}},
	{"leakybucket", "LeakyBucket{20, 10, 1s}, by Reserve",
		limit.LeakyBucket{Capacity: 20, Leak: 10, Interval: time.Second}},
	{"smooth", "Smooth{10, 1s}, by Reserve", limit.Smooth{Permits: 10, Interval: time.Second}},
	{"warmup", "Smooth{10, 1s, WarmUp 2s}, by Reserve",
		limit.Smooth{Permits: 10, Interval: time.Second, WarmUp: 2 * time.Second}},
}

func main() {
	for _, d := range drawings {
		granted, err := run(d.policy)
		if err == nil {
			err = draw(filepath.Join("docs/choosing", d.file+".svg"), d.title, granted)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// run returns the number of granted requests in each step. LeakyBucket and Smooth reserve, at most
// two seconds ahead.
func run(policy limit.Policy) ([]int, error) {
	redis, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	defer redis.Close()
	conn, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{redis.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limiter := limit.New(rratelimiter.New(conn, rratelimiter.WithClock(func() time.Time { return now })), "name", policy)
	granted := make([]int, steps)
	for i := range granted {
		for range demand(i) {
			switch policy.(type) {
			case limit.LeakyBucket, limit.Smooth:
				if err := reserve(limiter, policy, granted, i); err != nil {
					return nil, err
				}
				continue
			}
			ok, err := limiter.TryAcquire(context.Background(), 1)
			if err != nil {
				return nil, err
			}
			if ok {
				granted[i]++
			}
		}
		now = now.Add(step)
		redis.FastForward(step)
	}
	return granted, nil
}

// reserve makes a reservation and counts it in the step in which it becomes due.
func reserve(limiter *limit.Limiter, policy limit.Policy, granted []int, i int) error {
	seen, err := limiter.Peek(context.Background())
	if err != nil {
		return err
	}
	// Reservation.Delay uses the clock of the process, not the injected one.
	delay := seen[0].RetryAfter
	if _, ok := policy.(limit.LeakyBucket); ok {
		delay = seen[0].ResetAfter // until the bucket is empty
	}
	if delay > 2*time.Second {
		return nil
	}
	if _, err := limiter.Reserve(context.Background(), 1); err != nil {
		return err
	}
	if at := i + int(delay/step); at < len(granted) {
		granted[at]++
	}
	return nil
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
