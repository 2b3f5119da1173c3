package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TestQueue_StateChangedBeforeTheCaller_IsNotDeniedOnStaleState: only a reply to a call that left
// after the caller arrived denies it.
func TestQueue_StateChangedBeforeTheCaller_IsNotDeniedOnStaleState(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
	unchanged := func(context.Context, *rratelimiter.Limiter) error { return nil }
	within := func(l *rratelimiter.Limiter, ctx context.Context, permits int64) error {
		ok, err := l.TryAcquireWithin(ctx, permits, 5*time.Minute)
		if err == nil && !ok {
			return fmt.Errorf("(false, nil)")
		}
		return err
	}
	acquire := func(l *rratelimiter.Limiter, ctx context.Context, permits int64) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		return l.Acquire(ctx, permits)
	}
	for name, test := range map[string]struct {
		change  func(ctx context.Context, l *rratelimiter.Limiter) error
		permits int64
		want    error
	}{
		"Release": {func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Release(ctx, 10) }, 1, nil},
		"SetRate": {func(ctx context.Context, l *rratelimiter.Limiter) error { return l.SetRate(ctx, rate) }, 9, nil},
		"a higher rate": {func(ctx context.Context, l *rratelimiter.Limiter) error {
			return l.SetRate(ctx, rratelimiter.Rate{Permits: 50, Interval: time.Hour}, rratelimiter.KeepState())
		}, 30, nil},
		"Delete": {func(ctx context.Context, l *rratelimiter.Limiter) error {
			return errOf(l.Delete(ctx))
		}, 1, rratelimiter.ErrNotInitialized},
		"nothing":              {unchanged, 11, rratelimiter.ErrPermitsExceedRate},
		"nothing, and no time": {unchanged, 1, context.DeadlineExceeded},
		"Delete and TrySetRate": {func(ctx context.Context, l *rratelimiter.Limiter) error {
			if _, err := l.Delete(ctx); err != nil {
				return err
			}
			_, err := l.TrySetRate(ctx, rratelimiter.Rate{Permits: 20, Interval: second})
			return err
		}, 12, nil},
	} {
		for who, other := range map[string]bool{"another client": true, "this client": false} {
			for call, ask := range map[string]func(*rratelimiter.Limiter, context.Context, int64) error{
				"TryAcquireWithin": within, "Acquire": acquire,
			} {
				t.Run(name+" by "+who+", "+call, func(t *testing.T) {
					inQueue(t, rate, func(q *line, l *rratelimiter.Limiter) {
						ctx, cancel := context.WithCancel(q.Context())
						defer cancel()
						q.Take(l, 10)
						q.done.Go(func() { _ = l.Acquire(ctx, 1) })
						synctest.Wait()
						pass(time.Minute)
						changer := l
						if other {
							changer = rratelimiter.New(q.Conn).Limiter("limiter")
						}
						require.NoError(t, test.change(q.Context(), changer))
						before, start := q.Scripts.Load(), time.Now()
						err := ask(l, q.Context(), test.permits)
						if errors.Is(test.want, context.DeadlineExceeded) && call == "TryAcquireWithin" {
							assert.EqualError(t, err, "(false, nil)")
						} else {
							assert.ErrorIs(t, err, test.want)
						}
						assert.Zero(t, time.Since(start), "at once")
						if other {
							assert.Positive(t, q.Scripts.Load()-before, "calls to Redis for the new caller")
						}
						cancel()
					})
				})
			}
		}
	}
}

func TestQueue_MoreWantedThanReturns_NextIntervalsCount(t *testing.T) {
	inQueue(t, rratelimiter.Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *rratelimiter.Limiter) {
		ctx := q.Context()
		q.Take(l, 10)
		q.wait(l, "first", 6)
		q.wait(l, "second", 6)
		for _, timeout := range []time.Duration{second, 9 * second, 15 * second, 20*second - time.Millisecond} {
			assert.False(t, q.granted(l, 1, timeout), timeout)
			assert.Zero(t, time.Since(q.start).Round(time.Millisecond), "at once")
		}
		short, cancel := context.WithTimeout(ctx, 15*second)
		defer cancel()
		assert.ErrorContains(t, l.Acquire(short, 1), "in 20s at the earliest")
		assert.True(t, q.granted(l, 1, 21*second))
		q.done.Wait()
		assert.Equal(t, []string{"first at 10s", "second at 20s"}, q.log)
	})
}

// TestTryAcquireWithin_ServerHangs_EndsWithTheTimeout: the error reports that Redis has not
// answered. Permits that arrive later are refunded.
func TestTryAcquireWithin_ServerHangs_EndsWithTheTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{time.Nanosecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		inQueue(t, rratelimiter.Rate{Permits: 10, Interval: time.Hour}, func(q *line, l *rratelimiter.Limiter) {
			q.Latency.Store(int64(8 * second))
			start := time.Now()
			var callers sync.WaitGroup
			for range 5 { // the first is in a call, the others wait for theirs
				callers.Go(func() {
					ok, err := l.TryAcquireWithin(q.Context(), 1, timeout)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.ErrorContains(t, err, "has not answered")
					assert.False(t, ok)
					assert.Equal(t, timeout, time.Since(start))
				})
			}
			callers.Wait()
			pass(time.Minute)
			q.Latency.Store(0)
			q.Free(l, 10)
		})
	}
}

func TestQueue_SumOverflows_CallersAreDenied(t *testing.T) {
	rate := rratelimiter.Rate{Permits: engine.MaxPermits, Interval: time.Hour}
	inQueue(t, rate, func(q *line, l *rratelimiter.Limiter) {
		q.Take(l, 1)
		q.Latency.Store(int64(10 * time.Millisecond))
		ctx, cancel := context.WithCancel(q.Context())
		var refused sync.WaitGroup
		for range 2100 {
			q.done.Go(func() { assert.ErrorIs(t, l.Acquire(ctx, engine.MaxPermits), context.Canceled) })
			refused.Go(func() {
				ok, err := l.TryAcquireWithin(ctx, engine.MaxPermits, time.Minute)
				assert.NoError(t, err)
				assert.False(t, ok)
			})
		}
		refused.Wait()
		assert.Less(t, time.Since(q.start), second)
		cancel()
		pass(second)
	})
}
