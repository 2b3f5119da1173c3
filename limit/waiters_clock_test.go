package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestAcquire_ClockStepsAhead_OthersGoOn: the clock of one of two Clients steps ahead and back, or its Client ends
// meanwhile. Waiters get at least half of the rate all the time, and callers that do not wait, as Redisson's, get
// permits again.
func TestAcquire_ClockStepsAhead_OthersGoOn(t *testing.T) {
	t.Parallel()
	const step = 5 * time.Second
	for name, test := range map[string]struct {
		limiter string
		ends    bool
	}{
		"it steps back":                      {"TokenBucket", false},
		"its Client ends":                    {"SlidingLog", true},
		"it steps back, Redisson's layout":   {"Redisson's layout", false},
		"its Client ends, Redisson's layout": {"Redisson's layout", true},
	} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			open := func(opts ...rratelimiter.Option) waitable {
				return daily[test.limiter].open(rratelimiter.New(f.Conn, opts...))
			}
			var ahead, longest atomic.Int64
			var got [2]atomic.Int64
			var all sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			stepping, leave := context.WithCancel(ctx)
			for i, ctx := range []context.Context{stepping, ctx} {
				clock := func() time.Time { return time.Now().Add(time.Duration(int64(1-i) * ahead.Load())) }
				l := open(rratelimiter.WithClock(clock))
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
			if test.ends {
				leave()
			}
			ahead.Store(0)
			time.Sleep(2*step + 10*time.Second)
			assert.GreaterOrEqual(t, got[0].Load()+got[1].Load(), int64(40*(2+2+10+step.Seconds())*0.9), name)
			if !test.ends {
				assert.InDelta(t, got[0].Load(), got[1].Load(), 100, name)
			}
			assert.LessOrEqual(t, time.Duration(longest.Load()), 2*time.Second, name)
			one, tries := open(), 0
			for ; tries < 2000 && !redistest.Result(t, one.TryAcquire, 1); tries++ {
				time.Sleep(time.Millisecond)
			}
			assert.Less(t, tries, 2000, name)
			end()
			all.Wait()
			leave()
		})
	}
}

// TestAcquire_ClockIsBehind_IsServedAtOnce: a Client joins one that waits, whose clock is a minute ahead or behind.
func TestAcquire_ClockIsBehind_IsServedAtOnce(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]int64{"TokenBucket": 65, "Redisson's layout": 50} {
		for _, clocks := range [][]time.Duration{{0, -time.Minute}, {-time.Minute, 0}} {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				var all sync.WaitGroup
				var got [2]int64
				for i, clock := range clocks {
					all.Go(func() { got[i] = shares(t, f, 4*time.Second, daily[name].open, site{clock: clock}).sum() })
					time.Sleep(100 * time.Millisecond)
				}
				all.Wait()
				assert.GreaterOrEqual(t, min(got[0], got[1]), least, "%s, %v: %v", name, clocks, got)
			})
		}
	}
}

// TestTryAcquireWithin_ClockIsBehind_IsNotDeniedAtOnce: a permit will be free within the timeout, also by
// the state that the other Client leaves.
func TestTryAcquireWithin_ClockIsBehind_IsNotDeniedAtOnce(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := TokenBucket{10, 50, time.Second}
		behind := rratelimiter.WithClock(func() time.Time { return time.Now().Add(-time.Second) })
		late := New(rratelimiter.New(f.Conn, behind), "name", p)
		l := New(f.client, "name", p)
		ok := redistest.Result(t, l.TryAcquire, 10)
		require.True(t, ok)
		go func() {
			time.Sleep(100 * time.Millisecond)
			_, _ = l.TryAcquire(t.Context(), 1) // 4 are left
		}()
		start := time.Now()
		ok, err := late.TryAcquireWithin(t.Context(), 1, 500*time.Millisecond)
		require.NoError(t, err)
		assert.True(t, ok, "denied after %v", time.Since(start))
	})
}
