package rratelimiter

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

var initial = Rate{Permits: 10, Interval: time.Second, KeepAlive: 3 * time.Second}

// needRate are the calls of everyCall that need a rate, except for those that only read the
// configuration.
var needRate = []string{"TryAcquire", "TryAcquireWithin", "TakeWithin", "Acquire", "Take", "TakeUpTo", "Release",
	"Drain",
	"AvailablePermits"}

func TestInitialRate_NoRateInRedis_EachCallSetsItInOneMoreRoundTrip(t *testing.T) {
	t.Parallel()
	for _, name := range needRate {
		for _, opts := range [][]Option{nil, {WithDenialCache(time.Second)}, {WithPrefetch(time.Second)}} {
			runWithRedis(t, fmt.Sprint(name, len(opts)), func(t *testing.T, f *fixture) {
				for _, rate := range []Rate{initial, {Permits: 10, Interval: time.Second, Type: PerClient}} {
					f.Redis.FlushAll()
					l := New(f.Conn, opts...).Limiter("limiter", InitialRate(rate))
					call := everyCall(l)[name]
					require.NoError(t, call(t.Context())) // the scripts are known from now on
					assert.Equal(t, rate, f.configured(l))

					time.Sleep(time.Minute)
					f.Redis.FlushDB()
					_, err := l.Exists(t.Context()) // ends what a prefetch returns
					require.NoError(t, err)
					f.countedNow(l)
					sent := f.Sent.Load()
					require.NoError(t, call(t.Context()))
					assert.EqualValues(t, 2, f.Sent.Load()-sent, "the call and the one that sets the rate")
					assert.Equal(t, rate, f.configured(l))
				}
			})
		}
	}
}

func TestInitialRate_CallThatNeedsNoRate_SetsNone(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		if slices.Contains(append(needRate, "TrySetRate", "SetRate", "SetRate keep"), name) {
			continue
		}
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.Conn).Limiter("limiter", InitialRate(initial))
			_ = everyCall(l)[name](t.Context())
			assert.Empty(t, f.Redis.Keys())
		})
	}
}

func TestInitialRate_FieldIsMissing_IsSet(t *testing.T) {
	for _, missing := range []string{"rate", "interval", "type"} {
		for _, name := range needRate {
			runWithRedis(t, missing+" "+name, func(t *testing.T, f *fixture) {
				l := New(f.Conn).Limiter("limiter", InitialRate(initial))
				f.RequireGranted(l, 1)
				f.Redis.HDel("limiter", missing)
				assert.NoError(t, everyCall(l)[name](t.Context()))
				assert.Equal(t, initial, f.configured(l))
			})
		}
	}
}

func TestInitialRate_RateInRedis_Stays(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		f.limiter(Rate{Permits: 3, Interval: time.Hour})
		l := New(f.Conn).Limiter("limiter", InitialRate(initial))
		f.RequireGranted(l, 3)
		f.RequireDenied(l, 1)
		assert.Equal(t, Rate{Permits: 3, Interval: time.Hour}, f.configured(l))
		assert.ErrorIs(t, redistest.Err(l.TryAcquire(t.Context(), 4)), ErrPermitsExceedRate)
		f.Redis.HSet("limiter", "rate", "x")
		assert.ErrorAs(t, redistest.Err(l.TryAcquire(t.Context(), 1)), new(*StateError))
		assert.Equal(t, "x", f.Redis.HGet("limiter", "rate"))
	})
}

func TestInitialRate_LimiterOfTheSameNameWithout_StillFails(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		c := New(f.Conn)
		with, without := c.Limiter("limiter", InitialRate(initial)), c.Limiter("limiter")
		f.Latency.Store(int64(10 * time.Millisecond))
		_, errs := redistest.Crowd(2, func(caller int) (bool, error) {
			if caller == 0 {
				return without.TryAcquire(t.Context(), 1)
			}
			time.Sleep(time.Millisecond)
			return with.TryAcquire(t.Context(), 1)
		})
		assert.ErrorIs(t, errs[0], ErrNotInitialized)
		assert.NoError(t, errs[1])
	})
}

func TestInitialRate_AnotherClientDeletesItEachTime_TheCallEnds(t *testing.T) {
	for _, name := range needRate {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.Conn).Limiter("limiter", InitialRate(initial))
			sets := 0
			f.Redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
				switch command {
				case "EVAL": // of the two scripts in one round trip
					sets++
					fallthrough
				case "EVALSHA":
					f.Redis.Del("limiter")
				}
				return false
			})
			err := everyCall(l)[name](t.Context())
			assert.ErrorIs(t, err, ErrNotInitialized)
			assert.LessOrEqual(t, sets, 7, "two for each of three times, and one more if the script is not known yet")
		})
	}
}

func TestInitialRate_ServerRefusesToSetIt_TheCallHasItsError(t *testing.T) {
	for _, name := range needRate {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.Conn).Limiter("limiter", InitialRate(initial))
			f.refuse("HSETNX")
			assert.ErrorContains(t, everyCall(l)[name](t.Context()), "NOPERM")
		})
	}
}

func TestInitialRate_CallThatSetsIt_IsReported(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		var calls []bool
		l := New(f.Conn, WithObserver(&Observer{
			RedisCall: func(_ context.Context, c RedisCallInfo) { calls = append(calls, c.Initial) },
		})).Limiter("limiter", InitialRate(initial))
		for _, lost := range []bool{true, false, true} {
			if lost {
				f.Redis.FlushDB()
			}
			f.RequireGranted(l, 1)
		}
		assert.Equal(t, []bool{true, false, true}, calls)
	})
}
