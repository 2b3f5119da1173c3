package guardtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// left returns how many of ten permits an hour the key "one" has left.
func left(f *redistest.Fixture, client *rratelimiter.Client) int64 {
	d, err := limit.New(client, "api:one", hour(10)...).Peek(f.Context())
	require.NoError(f, err)
	return d[0].Remaining
}

func testSettle(t *testing.T, m Middleware) {
	for name, c := range map[string]struct {
		costs []int64
		left  int64
	}{
		"nothing settled": {nil, 5}, "all released": {[]int64{0}, 10}, "a part released": {[]int64{2}, 8},
		"as taken": {[]int64{5}, 5}, "more": {[]int64{8}, 2}, "more than there is": {[]int64{12}, 0},
		"the last counts": {[]int64{9, 0, 1}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				server := m.Server(Settings{
					Client: client, Each: hour(10), Cost: func() int64 { return 5 },
					Handler: func(ctx context.Context) {
						o, limited := m.FromContext(ctx)
						assert.True(t, limited)
						assert.EqualValues(t, 5, o.Decision.Remaining)
						for _, cost := range c.costs {
							assert.NoError(t, m.Settle(ctx, cost))
						}
					},
				})
				require.Equal(t, 200, server.get(f).Status)
				assert.Equal(t, c.left, left(f, client))
			})
		})
	}
}

func testSettleAfterTheEnd(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		m.Server(Settings{Client: client, Each: hour(10), Handler: func(ctx context.Context) {
			cancel()
			assert.NoError(t, m.Settle(ctx, 4))
		}})(ctx, "one")
		assert.EqualValues(t, 6, left(f, client))

		panics := m.Server(Settings{Client: client, Each: hour(10), Handler: func(ctx context.Context) {
			assert.NoError(t, m.Settle(ctx, 2))
			panic("a handler")
		}})
		assert.PanicsWithValue(t, "a handler", func() { panics.get(f) })
		assert.EqualValues(t, 4, left(f, client))
	})
}

// slowLogin is the context value of a request that succeeds late, as a time.Time.
type slowLogin struct{}

// A client keeps slow log-ins open, and ends them in a later window. Each of them settles with 0. They
// free no permits of that window.
func testSettleInALaterWindow(t *testing.T, m Middleware) {
	const logins, rounds, pace, settling = 5, 10, 1200 * time.Millisecond, 100 * time.Millisecond
	for name, policy := range map[string]limit.Policy{
		"fixed window":   limit.FixedWindow{Permits: logins, Interval: time.Second},
		"aligned window": limit.FixedWindow{Permits: logins, Interval: time.Second, Aligned: true},
		"sliding window": limit.SlidingWindow{Permits: logins, Interval: time.Second},
		"sliding log":    limit.SlidingLog{Permits: logins, Interval: time.Second},
		"token bucket":   limit.TokenBucket{Capacity: logins, Refill: logins, Interval: time.Second},
		"leaky bucket":   limit.LeakyBucket{Capacity: logins, Leak: logins, Interval: time.Second},
		"smooth":         limit.Smooth{Permits: logins, Interval: time.Second, Burst: time.Second},
		"redisson":       nil,
		"local share":    limit.SlidingLog{Permits: 2 * logins, Interval: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				s := Settings{Client: client, Handler: func(ctx context.Context) {
					if end, ok := ctx.Value(slowLogin{}).(time.Time); ok {
						time.Sleep(time.Until(end))
						assert.NoError(t, m.Settle(ctx, 0))
					}
				}}
				if policy != nil {
					s.Each = []limit.Policy{policy}
				} else {
					quota := client.Limiter("login")
					require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: logins, Interval: time.Second}))
					s.Limiter = quota
				}
				if name == "local share" {
					s.Mode = 1
					f.Redis.SetError("LOADING")
				}
				server := m.Server(s)
				attack := time.Now().Add(rounds * pace)
				var all sync.WaitGroup
				var open atomic.Int64
				for i := range rounds * logins {
					end := attack.Add(time.Duration(i) * settling / (rounds * logins))
					all.Go(func() {
						if server(context.WithValue(t.Context(), slowLogin{}, end), "one").Status == 200 {
							open.Add(1)
						}
					})
					if (i+1)%logins == 0 {
						time.Sleep(pace)
					}
				}
				passed := 0
				for range settling / time.Millisecond {
					if server.get(f).Status == 200 {
						passed++
					}
					time.Sleep(2 * time.Millisecond)
				}
				all.Wait()
				assert.EqualValues(t, rounds*logins, open.Load(), "slow log-ins")
				assert.LessOrEqual(t, passed, logins+1, "wrong passwords in %v", 2*settling) // buckets refill one
			})
		})
	}
}

func testSettleFails(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		quota := client.Limiter("quota")
		require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		var later context.Context
		server := m.Server(Settings{Limiter: quota, Handler: func(ctx context.Context) {
			later = ctx
			assert.ErrorIs(t, m.Settle(ctx, 2), errors.ErrUnsupported)
			assert.ErrorIs(t, m.Settle(ctx, -1), rratelimiter.ErrInvalidPermits)
			assert.NoError(t, m.Settle(ctx, 0))
		}})
		require.Equal(t, 200, server.get(f).Status)
		free, err := quota.AvailablePermits(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 10, free)
		assert.ErrorContains(t, m.Settle(later, 0), "has returned")
		assert.NoError(t, m.Settle(t.Context(), 0), "of no request")
		server = m.Server(Settings{Client: client, Each: hour(10), Handler: func(ctx context.Context) {
			assert.ErrorIs(t, m.Settle(ctx, 1<<53+2), rratelimiter.ErrInvalidPermits)
			assert.NoError(t, m.Settle(ctx, 1<<53+1), "the most that one call charges")
		}})
		assert.Equal(t, 200, server.get(f).Status)
	})
}

func testSettleInAnOutage(t *testing.T, m Middleware) {
	for name, c := range map[string]struct {
		cost  int64
		heard bool
	}{"a refund": {0, true}, "a charge": {2, true}, "without a callback": {0, false}} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				var failed []error
				end := func() {}
				s := Settings{Client: client, Each: hour(10), Handler: func(ctx context.Context) {
					end = slow(f)
					assert.NoError(t, m.Settle(ctx, c.cost))
				}}
				if c.heard {
					s.OnSettleError = func(err error) { failed = append(failed, err) }
				}
				begin := time.Now()
				assert.Equal(t, 200, m.Server(s).get(f).Status)
				defer end()
				assert.Equal(t, defaultDeadline, time.Since(begin))
				assert.Equal(t, c.heard, failed != nil)
				for _, err := range failed {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.ErrorContains(t, err, "no answer within")
				}
			})
		})
	}
}

func testSettleShare(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		cost := int64(0)
		server := m.Server(Settings{
			Client: client, Each: hour(10), Mode: 0.1,
			Handler: func(ctx context.Context) { assert.NoError(t, m.Settle(ctx, cost)) },
		})
		defer slow(f)()
		for range 5 {
			assert.Equal(t, 200, server.get(f).Status)
		}
		cost = 2
		assert.Equal(t, 200, server.get(f).Status)
		assert.Equal(t, 2*time.Hour, server.get(f).RetryAfter)
	})
}
