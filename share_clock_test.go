package rratelimiter

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAcquire_ClockStepsAhead_OthersGoOn: the clock of one of two Clients steps ahead and back, or its Client ends
// meanwhile. Waiters get at least half of the rate all the time, and callers that do not wait, as Redisson's, get
// permits again.
func TestAcquire_ClockStepsAhead_OthersGoOn(t *testing.T) {
	const step = 5 * time.Second
	rate := Rate{Permits: 20, Interval: 500 * time.Millisecond}
	for name, ends := range map[string]bool{"it steps back": false, "its Client ends": true} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			var ahead, longest atomic.Int64
			var got [2]atomic.Int64
			var all sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			defer end()
			stepping, leave := context.WithCancel(ctx)
			defer leave()
			for i, ctx := range []context.Context{stepping, ctx} {
				clock := func() time.Time { return time.Now().Add(time.Duration(int64(1-i) * ahead.Load())) }
				l := New(f.Conn, WithClock(clock)).Limiter("limiter", InitialRate(rate))
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
			if ends {
				leave()
			}
			ahead.Store(0)
			time.Sleep(2*step + 10*time.Second)
			assert.GreaterOrEqual(t, got[0].Load()+got[1].Load(), int64(40*(2+2+10+step.Seconds())*0.9))
			if !ends {
				assert.InDelta(t, got[0].Load(), got[1].Load(), 100)
			}
			assert.LessOrEqual(t, time.Duration(longest.Load()), 2*time.Second)
			other, taken := New(f.Conn).Limiter("limiter"), 0
			for range 2000 {
				ok, err := other.TryAcquire(t.Context(), 1)
				require.NoError(t, err)
				if ok {
					taken++
				}
				time.Sleep(time.Millisecond)
			}
			assert.Positive(t, taken)
			end()
			all.Wait()
		})
	}
}
