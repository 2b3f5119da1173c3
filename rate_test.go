package rratelimiter

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestSetRate_State_IsReset(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		l := f.limiter(Rate{Permits: 10, Interval: 10 * time.Second})
		f.RequireGranted(l, 10)
		require.NoError(t, l.SetRate(ctx, Rate{Permits: 5, Interval: time.Second}))
		f.RequireGranted(l, 5)
		f.RequireFalse(l.TrySetRate(ctx, Rate{Permits: 50, Interval: time.Second, KeepAlive: time.Second}))
		assert.Equal(t, Rate{Permits: 5, Interval: time.Second}, f.configured(l))

		// Another type: no state of the old one stays.
		f.RequireTrue(l.UpdateRate(ctx, Rate{Type: PerClient, Permits: 2, Interval: time.Second}, nil, KeepState()))
		assert.Equal(t, []string{"limiter"}, f.Redis.Keys())
	})
}

// TestKeepState_Grants_StayTaken: to the millisecond, by the Client's clock and by the server's.
func TestKeepState_Grants_StayTaken(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithServerTime()}} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: 10 * time.Second}, opts...)
			f.RequireGranted(l, 3)
			time.Sleep(4321 * time.Millisecond)
			f.RequireGranted(l, 5)
			keep := func(permits int64, interval time.Duration) {
				rate := Rate{Permits: permits, Interval: interval}
				require.NoError(t, l.SetRate(t.Context(), rate, KeepState()))
			}
			keep(20, 10*time.Second)
			f.RequireAvailable(l, 12)
			keep(6, 10*time.Second) // 8 are taken: a deficit of 2
			f.RequireAvailable(l, 0)
			assert.Equal(t, Decision{Limit: 6, RetryAfter: 10 * time.Second, ResetAfter: 10 * time.Second}, f.decision(l, 2))
			keep(9, 4322*time.Millisecond)
			f.RequireAvailable(l, 1)
			keep(9, 4321*time.Millisecond) // the 3 have left the shorter interval
			f.RequireAvailable(l, 4)
			assert.Len(t, f.members(), 1)
			time.Sleep(4321 * time.Millisecond)
			f.RequireGranted(l, 9)
		})
	}
}

// TestKeepState_MoreGrantsThanAPage_StayTaken: the call counts them by the value, if there is one.
func TestKeepState_MoreGrantsThanAPage_StayTaken(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10_000, Interval: 10 * time.Second})
		f.fill(l, 300, 2)
		keep := func(permits int64) {
			rate := Rate{Permits: permits, Interval: 10 * time.Second}
			require.NoError(t, l.SetRate(t.Context(), rate, KeepState()))
		}
		keep(500)
		f.RequireDenied(l, 1)
		keep(700)
		f.RequireGranted(l, 100)
		f.RequireDenied(l, 1)
		f.Redis.Del("{limiter}:value")
		keep(800)
		f.RequireAvailable(l, 100)
		f.RequireGranted(l, 1)
		synctest.Wait() // drift has been counted
		require.NoError(t, f.Redis.Set("{limiter}:value", "20000"))
		keep(900)
		assert.EqualValues(t, 900, f.Stored("{limiter}:value"))
		time.Sleep(10 * time.Second)
		f.RequireGranted(l, 900)
	})
}

// TestKeepState_ConfigurationIsLost_GrantsCount: Redis evicted the configuration. A rate that keeps
// the state counts the grants, as in Redisson. Otherwise the window would hold 10 + 10 permits for
// a rate of 10.
func TestKeepState_ConfigurationIsLost_GrantsCount(t *testing.T) {
	for _, kind := range []RateType{Overall, PerClient} {
		withRedis(t, func(t *testing.T, f *fixture) {
			rate := Rate{Type: kind, Permits: 10, Interval: time.Minute}
			l := f.limiter(rate)
			f.RequireGranted(l, 10)
			require.True(t, f.Redis.Del("limiter"))
			time.Sleep(time.Second)
			f.RequireFalse(l.UpdateRate(t.Context(), rate, KeepState())) // there is no limiter to update
			require.NoError(t, l.SetRate(t.Context(), rate, KeepState()))
			f.RequireDenied(l, 1)
			time.Sleep(time.Minute)
			f.RequireGranted(l, 10)
		})
	}
}

// TestTrySetRate_PartOfAConfiguration_TypeDecides: TrySetRate sets what is missing, and reports
// whether that was the type, as in Redisson. For UpdateRate a limiter exists if it has any field.
func TestTrySetRate_PartOfAConfiguration_TypeDecides(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx, l, rate := t.Context(), New(f.Conn).Limiter("limiter"), Rate{Permits: 10, Interval: time.Second}
		f.Redis.HSet("limiter", "rate", "7", "interval", "2000")
		f.RequireTrue(l.TrySetRate(ctx, rate))
		assert.Equal(t, Rate{Permits: 7, Interval: 2 * time.Second}, f.configured(l), "what was there stays")
		f.RequireFalse(l.TrySetRate(ctx, rate))

		f.Redis.FlushAll()
		f.Redis.HSet("limiter", "type", "0")
		f.RequireFalse(l.TrySetRate(ctx, rate))
		assert.Equal(t, rate, f.configured(l))
		f.Redis.FlushAll()
		f.Redis.HSet("limiter", "rate", "7")
		f.RequireTrue(l.UpdateRate(ctx, rate))
		assert.Equal(t, rate, f.configured(l))
	})
}

func TestConfig_LongestTimes_AreCutToDurations(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.Conn).Limiter("limiter")
		f.Redis.HSet("limiter", "rate", "9007199254740992", "interval", "9223372036854775808", "type", "0", "keepAliveTime",
			"999999999999999")
		rate := f.configured(l)
		assert.Equal(t, Rate{Permits: maxPermits, Interval: millis(math.MaxInt64), KeepAlive: millis(math.MaxInt64)}, rate)
	})
}

// TestPerClient_AnotherClientChangesTheLimiter_GrantsCount: it lengthens the interval or the TTL,
// and cannot name this client's state keys. Grants that had expired in a shorter interval count again.
func TestPerClient_AnotherClientChangesTheLimiter_GrantsCount(t *testing.T) {
	set := func(interval, keepAlive time.Duration, opts ...SetRateOption) func(context.Context, *Limiter) error {
		return func(ctx context.Context, l *Limiter) error {
			return l.SetRate(ctx, Rate{Type: PerClient, Permits: 10, Interval: interval, KeepAlive: keepAlive}, opts...)
		}
	}
	for name, test := range map[string]struct {
		interval, keepAlive, expires time.Duration
		change                       func(context.Context, *Limiter) error
		later                        time.Duration // the interval
	}{
		"an interval for ever": {time.Second, 0, 0, set(2*time.Hour, 0, KeepState()), 2 * time.Hour},
		"with a keep-alive":    {time.Second, 2 * time.Second, 0, set(time.Hour, time.Hour, KeepState()), time.Hour},
		"that gets one":        {time.Second, 0, 0, set(time.Hour, 2*time.Hour, KeepState()), time.Hour},
		"that loses it":        {time.Second, 2 * time.Second, 0, set(time.Hour, 0, KeepState()), time.Hour},
		"Expire": {time.Minute, 0, time.Second, func(ctx context.Context, l *Limiter) error {
			return redistest.Err(l.Expire(ctx, time.Hour))
		}, time.Minute},
		"ClearExpire": {time.Minute, 0, time.Second, func(ctx context.Context, l *Limiter) error {
			return redistest.Err(l.ClearExpire(ctx))
		}, time.Minute},
		"keep-alive": {time.Minute, 0, time.Second, set(time.Minute, time.Hour), time.Minute},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Type: PerClient, Permits: 10, Interval: test.interval, KeepAlive: test.keepAlive})
			if test.expires > 0 {
				f.RequireNoError(l.Expire(t.Context(), test.expires))
			}
			f.RequireGranted(l, 10)
			require.NoError(t, test.change(t.Context(), New(f.Conn).Limiter("limiter")))
			time.Sleep(test.later / 2)
			f.RequireDenied(l, 1)
			f.RequireAvailable(l, 0)
			time.Sleep(test.later/2 - time.Millisecond)
			f.RequireDenied(l, 1)
			time.Sleep(time.Millisecond)
			f.RequireGranted(l, 10)
		})
	}
}

// TestTryAcquire_StateIsLost_WindowIsKept: after an eviction no window holds more than the rate,
// and the limiter does not block for ever.
func TestTryAcquire_StateIsLost_WindowIsKept(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		f.RequireGranted(l, 7)
		f.Redis.Del("{limiter}:value")
		f.RequireAvailable(l, 3)
		f.RequireDenied(l, 4)
		f.RequireGranted(l, 3)

		f.Redis.Del("{limiter}:permits")
		f.RequireAvailable(l, 10)
		f.RequireGranted(l, 10)

		// More than the rate, as after another client has lowered the rate: until the next count.
		time.Sleep(time.Second)
		f.RequireGranted(l, 4)
		synctest.Wait() // drift has been counted
		require.NoError(t, f.Redis.Set("{limiter}:value", "50"))
		f.RequireAvailable(l, 10)
		f.countedNow(l)
		f.RequireGranted(l, 3)
		f.RequireDenied(New(f.Conn).Limiter("limiter"), 8)
		synctest.Wait()
		f.RequireAvailable(l, 3)
		f.RequireGranted(l, 3)
		f.RequireDenied(l, 1)
	})
}

// fromMemory takes a permit, and reports whether it was denied without a call to Redis.
func fromMemory(f *fixture, l *Limiter) bool {
	before := f.Scripts.Load()
	_, _ = l.Take(f.Context(), 1)
	return f.Scripts.Load() == before
}

// TestWithDenialCache_LimiterChanges_DenialIsForgotten: also if the caller of the change has left,
// once the server has answered.
func TestWithDenialCache_LimiterChanges_DenialIsForgotten(t *testing.T) {
	hour := Rate{Permits: 10, Interval: time.Hour}
	changes := map[string]func(ctx context.Context, c *Client) error{
		"Rename to another": func(ctx context.Context, c *Client) error {
			return c.Limiter("limiter").Rename(ctx, "elsewhere")
		},
		"Rename onto it": func(ctx context.Context, c *Client) error { return c.Limiter("full").Rename(ctx, "limiter") },
		"Copy onto it": func(ctx context.Context, c *Client) error {
			return redistest.Err(c.Limiter("full").Copy(ctx, "limiter", Replace()))
		},
		"Expire": func(ctx context.Context, c *Client) error { return redistest.Err(c.Limiter("limiter").Expire(ctx, 0)) },
	}
	for _, name := range []string{"Release", "SetRate", "SetRate keep", "UpdateRate", "ExpireAt", "Delete", "Unlink"} {
		changes[name] = func(ctx context.Context, c *Client) error {
			return everyCallWith(c.Limiter("limiter"), 1, hour)[name](ctx)
		}
	}
	for name, change := range changes {
		for kind, timeout := range map[string]time.Duration{"": time.Hour, ", caller left": 50 * time.Millisecond} {
			runWithRedis(t, name+kind, func(t *testing.T, f *fixture) {
				client := New(f.Conn, WithDenialCache(time.Hour))
				l := client.Limiter("limiter")
				require.NoError(t, l.SetRate(t.Context(), hour))
				require.NoError(t, client.Limiter("full").SetRate(t.Context(), hour))
				f.RequireGranted(l, 10)
				f.RequireDenied(l, 1)
				synctest.Wait()
				require.True(t, fromMemory(f, l))

				f.Latency.Store(int64(100 * time.Millisecond))
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				err := change(ctx, client)
				if timeout < time.Hour {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					time.Sleep(time.Second)
				} else {
					require.NoError(t, err)
				}
				assert.False(t, fromMemory(f, l))
			})
		}
	}
}
