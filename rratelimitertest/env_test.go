package rratelimitertest_test

import (
	"context"
	"fmt"
	"runtime"
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

// perMinute sets the rate of a limiter.
func perMinute(t *testing.T, env *rratelimitertest.Env, permits int64) *rratelimiter.Limiter {
	t.Helper()
	l := env.Client.Limiter("limiter")
	require.NoError(t, l.SetRate(t.Context(), rratelimiter.Rate{Permits: permits, Interval: time.Minute}))
	return l
}

// taker is TryAcquire of a limiter.
type taker func(ctx context.Context, permits int64) (bool, error)

// try takes a permit, and reports whether it was granted.
func try(t *testing.T, tryAcquire taker) bool {
	t.Helper()
	granted, err := tryAcquire(t.Context(), 1)
	require.NoError(t, err)
	return granted
}

// TestNew_ClientOptions_Apply: a Client's ID, its clock and the server's clock.
func TestNew_ClientOptions_Apply(t *testing.T) {
	for name, opts := range map[string][]rratelimiter.Option{
		"none":              nil,
		"server time":       {rratelimiter.WithServerTime()},
		"denial cache":      {rratelimiter.WithDenialCache(time.Hour)},
		"server denials":    {rratelimiter.WithServerTime(), rratelimiter.WithDenialCache(time.Hour)},
		"prefetch":          {rratelimiter.WithPrefetch(time.Second)},
		"server prefetches": {rratelimiter.WithPrefetch(time.Second), rratelimiter.WithServerTime()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := rratelimitertest.New(t, opts...)
				redisson := perMinute(t, env, 2)
				window := limit.New(env.Client, "window", limit.SlidingLog{Permits: 2, Interval: time.Minute})
				for _, l := range []taker{redisson.TryAcquire, window.TryAcquire} {
					for i, step := range []struct {
						after   time.Duration
						granted bool
					}{
						{0, true}, {30 * time.Second, true}, {0, false}, {29 * time.Second, false},
						{2 * time.Second, true}, {0, false}, {2 * time.Minute, true}, {0, true}, {0, false},
					} {
						time.Sleep(step.after)
						assert.Equal(t, step.granted, try(t, l), "step %d", i)
					}
				}
			})
		})
	}
}

// TestNew_Sleep_ServesWaitingCallers one after another, as their permits return.
func TestNew_Sleep_ServesWaitingCallers(t *testing.T) {
	for name, opts := range map[string][]rratelimiter.Option{
		"none":        nil,
		"server time": {rratelimiter.WithServerTime()},
		"prefetch":    {rratelimiter.WithPrefetch(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := rratelimitertest.New(t, opts...)
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
				synctest.Wait()
				for minute := range int64(waiters / 2) {
					time.Sleep(59 * time.Second)
					synctest.Wait()
					assert.Equal(t, 2*minute, served.Load())
					time.Sleep(time.Second)
					require.NoError(t, <-ended)
					require.NoError(t, <-ended)
					assert.Equal(t, 2*minute+2, served.Load())
				}
			})
		})
	}
}

// TestNew_OtherClient_SharesTheLimit: a program that creates its own Client.
func TestNew_OtherClient_SharesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		perMinute(t, env, 1)
		other := rratelimiter.New(env.Redis.Client(), rratelimiter.WithClock(time.Now)).Limiter("limiter")
		ours := env.Client.Limiter("limiter")
		assert.True(t, try(t, other.TryAcquire))
		assert.False(t, try(t, ours.TryAcquire))
		time.Sleep(time.Minute)
		assert.True(t, try(t, ours.TryAcquire))
		assert.False(t, try(t, other.TryAcquire))
	})
}

// TestNew_Keys_ExpireInTheBubble: the server deletes an unused limiter.
func TestNew_Keys_ExpireInTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		l := env.Client.Limiter("limiter")
		rate := rratelimiter.Rate{Permits: 1, Interval: time.Minute, KeepAlive: time.Hour}
		require.NoError(t, l.SetRate(t.Context(), rate))
		time.Sleep(time.Hour - time.Millisecond)
		_, err := l.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		left, err := l.RemainTimeToLive(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Hour, left)
		at, err := l.ExpireTime(t.Context())
		require.NoError(t, err)
		assert.True(t, at.Equal(time.Now().Add(time.Hour)))
		time.Sleep(time.Hour)
		_, err = l.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, rratelimiter.ErrNotInitialized)
	})
}

// TestNew_Concurrent_IsInTheBubble: tests with two services in one bubble have an Env for each.
func TestNew_Concurrent_IsInTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 4 {
			go rratelimitertest.New(t)
		}
		synctest.Wait()
	})
}

// TestNew_EndOfTest_LeavesNoGoroutine: synctest checks it.
func TestNew_EndOfTest_LeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t, rratelimiter.WithPrefetch(time.Second), rratelimiter.WithDenialCache(time.Second))
		l := perMinute(t, env, 100)
		for range 200 {
			_, err := l.TryAcquire(t.Context(), 1)
			require.NoError(t, err)
		}
		env.Redis.Fail(errDown)
	})
}

// fatal keeps the error that ends a test.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Fatal(values ...any) {
	f.text = fmt.Sprint(values...)
	runtime.Goexit()
}

func TestNew_OutsideABubble_SaysWhatToDo(t *testing.T) {
	f := &fatal{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rratelimitertest.New(f)
	}()
	<-ended
	assert.Contains(t, f.text, "synctest.Test")
}
