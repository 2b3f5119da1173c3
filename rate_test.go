package rratelimiter

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSetRate_State_IsReset(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx := b.Context()
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 10)
		require.NoError(b, l.SetRate(ctx, Rate{Permits: 5, Interval: second}))
		b.Take(l, 5)
		b.no(l.TrySetRate(ctx, Rate{Permits: 50, Interval: second, KeepAlive: second}))
		assert.Equal(b, Rate{Permits: 5, Interval: second}, b.configured(l))

		// Another type: no state of the old one stays.
		b.yes(l.UpdateRate(ctx, Rate{Type: PerClient, Permits: 2, Interval: second}, nil, KeepState()))
		assert.Equal(b, []string{"limiter"}, b.Redis.Keys())
	})
}

// TestKeepState_Grants_StayTaken: to the millisecond, by the Client's clock and by the server's.
func TestKeepState_Grants_StayTaken(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithServerTime()}} {
		withRedis(t, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: 10 * second}, opts...)
			b.Take(l, 3)
			pass(4321 * time.Millisecond)
			b.Take(l, 5)
			keep := func(permits int64, interval time.Duration) {
				rate := Rate{Permits: permits, Interval: interval}
				require.NoError(b, l.SetRate(b.Context(), rate, KeepState()))
			}
			keep(20, 10*second)
			b.Free(l, 12)
			keep(6, 10*second) // 8 are taken: a deficit of 2
			b.Free(l, 0)
			assert.Equal(b, Decision{Limit: 6, RetryAfter: 10 * second, ResetAfter: 10 * second}, b.decision(l, 2))
			keep(9, 4322*time.Millisecond)
			b.Free(l, 1)
			keep(9, 4321*time.Millisecond) // the 3 have left the shorter interval
			b.Free(l, 4)
			assert.Len(b, b.members(), 1)
			pass(4321 * time.Millisecond)
			b.Take(l, 9)
		})
	}
}

// TestKeepState_MoreGrantsThanAPage_StayTaken: the call counts them by the value, if there is one.
func TestKeepState_MoreGrantsThanAPage_StayTaken(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		for range 300 {
			b.Take(l, 2)
		}
		keep := func(permits int64) {
			rate := Rate{Permits: permits, Interval: 10 * second}
			require.NoError(b, l.SetRate(b.Context(), rate, KeepState()))
		}
		keep(500)
		b.Full(l, 1)
		keep(700)
		b.Take(l, 100)
		b.Full(l, 1)
		b.Redis.Del("{limiter}:value")
		keep(800)
		b.Free(l, 100)
		b.Take(l, 1)
		require.NoError(b, b.Redis.Set("{limiter}:value", "20000"))
		keep(900)
		assert.EqualValues(b, 900, b.Stored("{limiter}:value"))
		pass(10 * second)
		b.Take(l, 900)
	})
}

// TestKeepState_ConfigurationIsLost_GrantsCount: Redis evicted the configuration. A rate that keeps
// the state counts the grants, as in Redisson. Otherwise the window would hold 10 + 10 permits for
// a rate of 10.
func TestKeepState_ConfigurationIsLost_GrantsCount(t *testing.T) {
	for _, kind := range []RateType{Overall, PerClient} {
		withRedis(t, func(b *fixture) {
			rate := Rate{Type: kind, Permits: 10, Interval: time.Minute}
			l := b.limiter(rate)
			b.Take(l, 10)
			require.True(b, b.Redis.Del("limiter"))
			pass(second)
			b.no(l.UpdateRate(b.Context(), rate, KeepState())) // there is no limiter to update
			require.NoError(b, l.SetRate(b.Context(), rate, KeepState()))
			b.Full(l, 1)
			pass(time.Minute)
			b.Take(l, 10)
		})
	}
}

// TestTrySetRate_PartOfAConfiguration_TypeDecides: TrySetRate sets what is missing, and reports
// whether that was the type, as in Redisson. For UpdateRate a limiter exists if it has any field.
func TestTrySetRate_PartOfAConfiguration_TypeDecides(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx, l, rate := b.Context(), New(b.Conn).Limiter("limiter"), Rate{Permits: 10, Interval: second}
		b.Redis.HSet("limiter", "rate", "7", "interval", "2000")
		b.yes(l.TrySetRate(ctx, rate))
		assert.Equal(b, Rate{Permits: 7, Interval: 2 * second}, b.configured(l), "what was there stays")
		b.no(l.TrySetRate(ctx, rate))

		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "type", "0")
		b.no(l.TrySetRate(ctx, rate))
		assert.Equal(b, rate, b.configured(l))
		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "rate", "7")
		b.yes(l.UpdateRate(ctx, rate))
		assert.Equal(b, rate, b.configured(l))
	})
}

func TestConfig_LongestTimes_AreCutToDurations(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.Conn).Limiter("limiter")
		b.Redis.HSet("limiter", "rate", "9007199254740992", "interval", "9223372036854775808", "type", "0", "keepAliveTime",
			"999999999999999")
		rate := b.configured(l)
		assert.Equal(b, Rate{Permits: maxPermits, Interval: millis(math.MaxInt64), KeepAlive: millis(math.MaxInt64)}, rate)
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
		"an interval for ever": {second, 0, 0, set(2*time.Hour, 0, KeepState()), 2 * time.Hour},
		"with a keep-alive":    {second, 2 * second, 0, set(time.Hour, time.Hour, KeepState()), time.Hour},
		"that gets one":        {second, 0, 0, set(time.Hour, 2*time.Hour, KeepState()), time.Hour},
		"that loses it":        {second, 2 * second, 0, set(time.Hour, 0, KeepState()), time.Hour},
		"Expire": {time.Minute, 0, second, func(ctx context.Context, l *Limiter) error {
			return errOf(l.Expire(ctx, time.Hour))
		}, time.Minute},
		"ClearExpire": {time.Minute, 0, second, func(ctx context.Context, l *Limiter) error {
			return errOf(l.ClearExpire(ctx))
		}, time.Minute},
		"keep-alive": {time.Minute, 0, second, set(time.Minute, time.Hour), time.Minute},
	} {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(Rate{Type: PerClient, Permits: 10, Interval: test.interval, KeepAlive: test.keepAlive})
			if test.expires > 0 {
				b.must(l.Expire(b.Context(), test.expires))
			}
			b.Take(l, 10)
			require.NoError(b, test.change(b.Context(), New(b.Conn).Limiter("limiter")))
			pass(test.later / 2)
			b.Full(l, 1)
			b.Free(l, 0)
			pass(test.later/2 - time.Millisecond)
			b.Full(l, 1)
			pass(time.Millisecond)
			b.Take(l, 10)
		})
	}
}

// TestTryAcquire_StateIsLost_WindowIsKept: after an eviction no window holds more than the rate,
// and the limiter does not block for ever.
func TestTryAcquire_StateIsLost_WindowIsKept(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		b.Take(l, 7)
		b.Redis.Del("{limiter}:value")
		b.Free(l, 3)
		b.Full(l, 4)
		b.Take(l, 3)

		b.Redis.Del("{limiter}:permits")
		b.Free(l, 10)
		b.Take(l, 10)

		// More than the rate, as after another client has lowered the rate.
		pass(second)
		b.Take(l, 4)
		require.NoError(b, b.Redis.Set("{limiter}:value", "50"))
		b.Free(l, 10)
		b.Take(l, 3)
		b.Free(l, 3)
		b.Take(l, 3)
		b.Full(l, 1)
	})
}

// Two calls are in flight at a time, of which one counts the permits, and the other has a hint.
func TestTryAcquire_ClockAtTheZeroTime_KeepsTheRate(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 3, Interval: time.Minute}, WithClock(func() time.Time { return time.Time{} }))
		b.Take(l, 3)
		b.no(l.TryAcquire(b.Context(), 1))
		b.Latency.Store(int64(10 * time.Millisecond))
		var done sync.WaitGroup
		for i := range 4 {
			done.Go(func() {
				pass(time.Duration(i) * 3 * time.Millisecond)
				ok, err := l.TryAcquire(b.Context(), 1)
				assert.NoError(b, err)
				assert.False(b, ok, "the clock stands still: all permits are taken")
			})
		}
		done.Wait()
	})
}
