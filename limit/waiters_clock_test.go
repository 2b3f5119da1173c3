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

// acquirer is a limiter of either layout.
type acquirer interface {
	Acquire(ctx context.Context, permits int64) error
	TryAcquire(ctx context.Context, permits int64) (bool, error)
}

// redissonLimiter grants 40 permits a second, in Redisson's layout.
func redissonLimiter(c *rratelimiter.Client) *rratelimiter.Limiter {
	return c.Limiter("name", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 20, Interval: 500 * time.Millisecond}))
}

// TestAcquire_ClockStepsAhead_OthersGoOn: the clock of one of two Clients steps ahead and back, or its Client ends
// meanwhile. Waiters get at least half of the rate all the time, and callers that do not wait, as Redisson's, get
// permits again.
func TestAcquire_ClockStepsAhead_OthersGoOn(t *testing.T) {
	const step = 5 * time.Second
	for name, test := range map[string]struct {
		ends   bool
		policy Policy
	}{
		"it steps back":                      {false, TokenBucket{1, 40, time.Second}},
		"its Client ends":                    {true, SlidingLog{20, 500 * time.Millisecond}},
		"it steps back, Redisson's layout":   {false, nil},
		"its Client ends, Redisson's layout": {true, nil},
	} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			open := func(opts ...rratelimiter.Option) acquirer {
				if client := rratelimiter.New(f.Conn, opts...); test.policy != nil {
					return New(client, "x", test.policy)
				} else {
					return redissonLimiter(client)
				}
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
			one, taken := open(), 0
			for range 2000 {
				if redistest.Result(t, one.TryAcquire, 1) {
					taken++
				}
				time.Sleep(time.Millisecond)
			}
			assert.Positive(t, taken, name)
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

// TestTryAcquireWithin_ClockIsBehind_IsNotDeniedAtOnce: a permit will be free within the timeout, also by
// the state that the other Client leaves.
func TestTryAcquireWithin_ClockIsBehind_IsNotDeniedAtOnce(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := TokenBucket{10, 50, time.Second}
		behind := rratelimiter.WithClock(func() time.Time { return time.Now().Add(-time.Second) })
		late := New(rratelimiter.New(f.Conn, behind), "name", p)
		l := New(f.client, "name", p)
		ok, err := l.TryAcquire(t.Context(), 10)
		require.NoError(t, err)
		require.True(t, ok)
		go func() {
			time.Sleep(100 * time.Millisecond)
			_, _ = l.TryAcquire(t.Context(), 1) // 4 are left
		}()
		start := time.Now()
		ok, err = late.TryAcquireWithin(t.Context(), 1, 500*time.Millisecond)
		require.NoError(t, err)
		assert.True(t, ok, "denied after %v", time.Since(start))
	})
}
