// Command choosing draws how many requests of the same demand each policy of package limit grants,
// for docs/choosing.md:
//
//	go run ./docs/choosing
//
// It runs the policies on an in-memory Redis with an injected clock.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
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
	_, self, _, _ := runtime.Caller(0)
	for _, d := range drawings {
		granted, err := run(d.policy)
		if err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(self), d.file+".svg"), []byte(draw(d.title, granted)), 0o644)
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

// Layout in SVG units. Text has spare room, since the reader's fonts may be wider.
const (
	left, right, top, bottom = 50.0, 850.0, 40.0, 200.0
	most                     = 32.0 // requests in a step
)

func x(i int) float64         { return left + (right-left)*float64(i)/steps }
func y(count float64) float64 { return bottom - (bottom-top)*count/most }

// draw shows the demand in grey, granted requests in blue, and a line of the requests granted in the
// second before.
func draw(title string, granted []int) string {
	var s strings.Builder
	s.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 240" ` +
		`font-family="sans-serif" font-size="12">` + "\n" +
		`<rect width="900" height="240" fill="#fff"/>` + "\n")
	fmt.Fprintf(&s, `<text x="%g" y="22" font-size="15" font-weight="bold">%s</text>`+"\n", left, title)
	for _, count := range []float64{0, 10, 20, 30} {
		fmt.Fprintf(&s, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+
			`<text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n",
			left, right, y(count), y(count), left-8, y(count)+4, count)
	}
	perSecond := int(time.Second / step)
	for second := 0; second <= steps/perSecond; second += 5 {
		fmt.Fprintf(&s, `<text x="%.1f" y="%g" text-anchor="middle">%d s</text>`+"\n", x(second*perSecond), bottom+18, second)
	}
	bar := func(i, count int, color string) {
		if count > 0 {
			fmt.Fprintf(&s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
				x(i), y(float64(count)), x(1)-left, bottom-y(float64(count)), color)
		}
	}
	var line []string
	last := 0
	for i, count := range granted {
		bar(i, demand(i), "#ccc")
		bar(i, count, "#005ac8")
		if last += count; i >= perSecond {
			last -= granted[i-perSecond]
		}
		line = append(line, fmt.Sprintf("%.1f,%.1f", x(i+1), y(float64(last))))
	}
	fmt.Fprintf(&s, `<polyline points="%s" fill="none" stroke="#cd0000" stroke-width="1.5"/>`+"\n",
		strings.Join(line, " "))
	s.WriteString("</svg>\n")
	return s.String()
}
