package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestAcquire_ClockStepsAhead_OthersGoOn: the clock of one of two Clients steps ahead and back, or its Client ends
// meanwhile. Waiters get at least half of the rate all the time, and callers that do not wait get permits again.
func TestAcquire_ClockStepsAhead_OthersGoOn(t *testing.T) {
	const step = 5 * time.Second
	for name, p := range map[string]Policy{"it steps back": TokenBucket{1, 40, time.Second},
		"its Client ends": SlidingLog{20, 500 * time.Millisecond}} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			var ahead, longest atomic.Int64
			var got [2]atomic.Int64
			var all sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			stepping, leave := context.WithCancel(ctx)
			for i, ctx := range []context.Context{stepping, ctx} {
				clock := func() time.Time { return time.Now().Add(time.Duration(int64(1-i) * ahead.Load())) }
				l := New(rratelimiter.New(f.Conn, rratelimiter.WithClock(clock)), "x", p)
				for range 5 {
					all.Go(func() {
						for from := time.Now(); l.Acquire(ctx, 1) == nil; from = time.Now() {
							got[i].Add(1)
							longest.Store(max(longest.Load(), int64(time.Since(from))))
						}
					})
				}
			}
			time.Sleep(2 * time.Second)
			ahead.Store(int64(step))
			time.Sleep(2 * time.Second)
			if name == "its Client ends" {
				leave()
			}
			ahead.Store(0)
			time.Sleep(2*step + 10*time.Second)
			assert.GreaterOrEqual(t, got[0].Load()+got[1].Load(), int64(40*(2+2+10+step.Seconds())*0.9), "%s: %T", name, p)
			if name == "it steps back" {
				assert.InDelta(t, got[0].Load(), got[1].Load(), 100, "%s: %T", name, p)
			}
			assert.LessOrEqual(t, time.Duration(longest.Load()), 2*time.Second, "%s: %T", name, p)
			one, taken := New(rratelimiter.New(f.Conn), "x", p), 0
			for range 2000 {
				if redistest.Result(t, one.TryAcquire, 1) {
					taken++
				}
				time.Sleep(time.Millisecond)
			}
			assert.Positive(t, taken, "%s: %T", name, p)
			end()
			all.Wait()
			leave()
		})
	}
}

// TestAcquire_ClockIsBehind_IsServedAtOnce: a Client joins one that waits, whose clock is a minute ahead or behind.
func TestAcquire_ClockIsBehind_IsServedAtOnce(t *testing.T) {
	for _, clocks := range [][]time.Duration{{0, -time.Minute}, {-time.Minute, 0}} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			var all sync.WaitGroup
			var got [2]int64
			for i, clock := range clocks {
				all.Go(func() {
					got[i] = shares(t, f, 4*time.Second, func(c *rratelimiter.Client) Joinable {
						return New(c, "x", TokenBucket{1, 40, time.Second})
					}, site{clock: clock}).sum()
				})
				time.Sleep(100 * time.Millisecond)
			}
			all.Wait()
			assert.GreaterOrEqual(t, min(got[0], got[1]), int64(65), "%v: %v", clocks, got)
		})
	}
}
