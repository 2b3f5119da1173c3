package rratelimitertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rratelimitertest"
)

var errDown = errors.New("connection refused")

// TestRedis_Fail_FailsEveryCall of limiters and of the rueidis client, until Recover.
func TestRedis_Fail_FailsEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		l := perMinute(t, env, 100)
		w := limit.New(env.Client, "window", limit.FixedWindow{Permits: 100, Interval: time.Minute})
		redis := env.Redis.Client()
		calls := map[string]func(context.Context) error{
			"TryAcquire": func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, 1)) },
			"Acquire":    func(ctx context.Context) error { return l.Acquire(ctx, 1) },
			"Config":     func(ctx context.Context) error { return redistest.Err(l.Config(ctx)) },
			"limit Take": func(ctx context.Context) error { return redistest.Err(w.Take(ctx, 1)) },
			"Do":         func(ctx context.Context) error { return redis.Do(ctx, redis.B().Ping().Build()).Error() },
			"DoMulti": func(ctx context.Context) error {
				return redis.DoMulti(ctx, redis.B().Ping().Build(), redis.B().Ping().Build())[1].Error()
			},
			"DoCache": func(ctx context.Context) error {
				return unlessNil(redis.DoCache(ctx, redis.B().Get().Key("k").Cache(), time.Minute).Error())
			},
			"DoMultiCache": func(ctx context.Context) error {
				get := rueidis.CT(redis.B().Get().Key("k").Cache(), time.Minute)
				return unlessNil(redis.DoMultiCache(ctx, get)[0].Error())
			},
		}
		for name, call := range calls {
			require.NoError(t, call(t.Context()), name)
		}
		env.Redis.Fail(errDown)
		for name, call := range calls {
			assert.ErrorIs(t, call(t.Context()), errDown, name)
		}
		subscribe := redis.B().Subscribe().Channel("c").Build()
		assert.ErrorIs(t, redis.Receive(t.Context(), subscribe, nil), errDown)
		env.Redis.Recover()
		for name, call := range calls {
			assert.NoError(t, call(t.Context()), name)
		}
	})
}

// unlessNil drops the error of a key that does not exist.
func unlessNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

// TestRedis_Fail_EndsWaits: a waiting caller fails with its next call.
func TestRedis_Fail_EndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		l := perMinute(t, env, 1)
		require.NoError(t, l.Acquire(t.Context(), 1))
		ended := make(chan error, 1)
		go func() { ended <- l.Acquire(t.Context(), 1) }()
		time.Sleep(time.Second)
		env.Redis.Fail(errDown)
		time.Sleep(time.Minute)
		assert.ErrorIs(t, <-ended, errDown)
	})
}

// TestRedis_CopyReplacesALimiterWithAnExpiry_ExpiryIsThatOfTheSource: as in Redis.
func TestRedis_CopyReplacesALimiterWithAnExpiry_ExpiryIsThatOfTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		for _, keepAlive := range []time.Duration{0, 2 * time.Hour} {
			from, to := env.Client.Limiter("{t}:from"), env.Client.Limiter("{t}:to")
			rate := rratelimiter.Rate{Permits: 5, Interval: time.Minute, KeepAlive: keepAlive}
			require.NoError(t, from.SetRate(t.Context(), rate))
			rate.KeepAlive = time.Hour
			require.NoError(t, to.SetRate(t.Context(), rate))
			want, err := from.ExpireTime(t.Context())
			require.NoError(t, err)
			copied, err := from.Copy(t.Context(), "{t}:to", rratelimiter.Replace())
			require.NoError(t, err)
			require.True(t, copied)
			got, err := to.ExpireTime(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, got, "KeepAlive %v", keepAlive)
		}
	})
}
