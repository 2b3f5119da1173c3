package engine_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// TestWithClock_ClockPanics_PanicsInItsCaller if the call runs on the caller's goroutine.
func TestWithClock_ClockPanics_PanicsInItsCaller(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var broken atomic.Bool
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithClock(func() time.Time {
			if broken.Load() {
				panic("no time")
			}
			return time.Now()
		}))
		broken.Store(true)
		for range 5 { // more often than calls may be in flight
			assert.PanicsWithValue(b, "no time", func() { _, _ = l.TryAcquire(context.Background(), 1) })
		}
		broken.Store(false)
		b.Take(l, 10)
		synctest.Wait()
		b.idle(b.client)
	})
}

// TestWithClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting, as a failed assertion in a clock does.
func TestWithClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting(t *testing.T) {
	calls := append([]ask{
		{name: "Release", call: func(ctx context.Context, l *rratelimiter.Limiter, n int64) error {
			return l.Release(ctx, n)
		}},
		{name: "AvailablePermits", call: func(ctx context.Context, l *rratelimiter.Limiter, _ int64) error {
			return errOf(l.AvailablePermits(ctx))
		}},
	}, asks...)
	for _, ask := range calls {
		for kind, cancellable := range map[string]bool{"": false, ", with a context that can end": true} {
			runWithRedis(t, ask.name+kind, func(b *fixture) {
				var ends atomic.Int64
				l := b.limiter(rratelimiter.Rate{Permits: 1000, Interval: time.Hour}, rratelimiter.WithClock(func() time.Time {
					if ends.Add(-1) >= 0 {
						runtime.Goexit()
					}
					return time.Now()
				}))
				ctx := context.Background()
				if cancellable {
					ctx = b.Context()
				}
				b.Latency.Store(int64(10 * time.Millisecond))
				ends.Store(3)
				var callers sync.WaitGroup
				for range 50 {
					callers.Go(func() { _ = ask.call(ctx, l, 1) })
				}
				callers.Wait()
				ends.Store(0)
				require.NoError(b, ask.call(ctx, l, 1))
				synctest.Wait()
				b.idle(b.client)
			})
		}
	}
}

// TestWithServerTime_SlowLink_PermitsReturnInTime: the script reads the time after the call has
// left, so permits return no earlier than it reports.
func TestWithServerTime_SlowLink_PermitsReturnInTime(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: 10 * second}, rratelimiter.WithServerTime())
		b.Take(l, 10)
		pass(100 * time.Millisecond)
		before := b.Scripts.Load()
		b.Latency.Store(int64(500 * time.Millisecond))
		time.AfterFunc(700*time.Millisecond, func() { b.Latency.Store(0) })
		require.NoError(b, l.Acquire(b.Context(), 1))
		assert.EqualValues(b, 2, b.Scripts.Load()-before, "calls: one that is denied, and one in time")
	})
}

// TestWithClock_ClockEndsAnyOfItsReadings_LeavesNoCallerWaiting: a denial that is remembered reads
// the clock too.
func TestWithClock_ClockEndsAnyOfItsReadings_LeavesNoCallerWaiting(t *testing.T) {
	for ending := range int64(6) {
		withRedis(t, func(b *fixture) {
			var reading atomic.Int64
			clock := rratelimiter.WithClock(func() time.Time {
				if reading.Add(1) == ending+1 {
					runtime.Goexit()
				}
				return time.Now()
			})
			reading.Store(100)
			l := b.limiter(rratelimiter.Rate{Permits: 1, Interval: time.Hour}, clock, rratelimiter.WithDenialCache(second))
			b.Take(l, 1)
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			b.Latency.Store(int64(10 * time.Millisecond))
			reading.Store(0)
			var callers sync.WaitGroup
			for i := range 20 {
				callers.Go(func() {
					pass(time.Duration(i) * time.Millisecond)
					_, err := l.TryAcquire(ctx, 1)
					assert.NotErrorIs(b, err, context.DeadlineExceeded)
				})
			}
			callers.Wait()
			pass(second)
			b.idle(b.client)
		})
	}
}
