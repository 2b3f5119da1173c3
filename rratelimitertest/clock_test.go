package rratelimitertest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rratelimitertest"
)

// TestClock_Advance_ServesWaitingCallers one after another, as their permits return.
func TestClock_Advance_ServesWaitingCallers(t *testing.T) {
	for name, opts := range map[string][]rratelimiter.Option{
		"none":        nil,
		"server time": {rratelimiter.WithServerTime()},
		"lease":       {rratelimiter.WithLease(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waiting atomic.Int64
				count := rratelimiter.WithObserver(&rratelimiter.Observer{
					Waiting: func(_ context.Context, info rratelimiter.WaitingInfo) { waiting.Add(int64(info.Change)) },
				})
				env := rratelimitertest.New(t, append(opts, count)...)
				l := perMinute(t, env, 1)
				w := limit.New(env.Client, "window", limit.FixedWindow{Permits: 1, Interval: time.Minute})
				require.NoError(t, l.Acquire(t.Context(), 1))
				require.NoError(t, w.Acquire(t.Context(), 1))
				var served atomic.Int64
				ended := make(chan error)
				within := func(try func(context.Context, int64, time.Duration) (bool, error)) {
					ok, err := try(t.Context(), 1, time.Hour)
					if ok {
						served.Add(1)
					}
					ended <- err
				}
				const waiters = 6
				for range waiters / 2 {
					go within(l.TryAcquireWithin)
					go within(w.TryAcquireWithin)
				}
				// A call that leaves before Advance and arrives after it would begin a window too early. Each
				// Advance waits for the calls in flight.
				for waiting.Load() < waiters {
					env.Clock.Advance(0)
				}
				env.Clock.Advance(0)
				for minute := range int64(waiters / 2) {
					env.Clock.Advance(59 * time.Second)
					assert.Equal(t, 2*minute, served.Load())
					env.Clock.Advance(time.Second)
					require.NoError(t, <-ended)
					require.NoError(t, <-ended)
					assert.Equal(t, 2*minute+2, served.Load())
				}
			})
		})
	}
}

func TestClock_AdvanceBelowZero_Panics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		assert.PanicsWithValue(t, "rratelimitertest: Advance(-1s), want 0 or more",
			func() { env.Clock.Advance(-time.Second) })
	})
}

// TestClock_ConcurrentAdvances_AddUp: the clock is safe for concurrent use, in a bubble too.
func TestClock_ConcurrentAdvances_AddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		before := env.Clock.Now()
		panics := make(chan any)
		const advances = 3
		for range advances {
			go func() {
				defer func() { panics <- recover() }()
				env.Clock.Advance(time.Second)
			}()
		}
		for range advances {
			assert.Nil(t, <-panics)
		}
		assert.Equal(t, advances*time.Second, env.Clock.Now().Sub(before))
	})
}

// TestClock_OtherClient_SharesTheLimit: a program that creates its own Client.
func TestClock_OtherClient_SharesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		perMinute(t, env, 1)
		other := rratelimiter.New(env.Redis.Client(), rratelimiter.WithClock(env.Clock.Now)).Limiter("limiter")
		ours := env.Client.Limiter("limiter")
		assert.True(t, try(t, other.TryAcquire))
		assert.False(t, try(t, ours.TryAcquire))
		env.Clock.Advance(time.Minute)
		assert.True(t, try(t, ours.TryAcquire))
		assert.False(t, try(t, other.TryAcquire))
	})
}

// Tests with two services in one bubble have an Env for each. They share the bubble's time.
func TestClock_AdvancesOfTwoEnvs_Overlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var done sync.WaitGroup
		for range 2 {
			clock := rratelimitertest.New(t).Clock
			done.Go(func() { clock.Advance(time.Second) })
		}
		done.Go(func() {
			time.Sleep(time.Second)
			rratelimitertest.New(t)
		})
		done.Wait()
		assert.InDelta(t, time.Second, time.Since(start), float64(time.Millisecond))
	})
}
