package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestQueue_StateChangedBeforeTheCaller_IsNotDeniedOnStaleState: only a reply to a call that left
// after the caller arrived denies it.
func TestQueue_StateChangedBeforeTheCaller_IsNotDeniedOnStaleState(t *testing.T) {
	within := func(ctx context.Context, l *fake, permits int64) error {
		ok, err := l.TryAcquireWithin(ctx, permits, 5*time.Minute)
		if err == nil && !ok {
			return context.DeadlineExceeded
		}
		return err
	}
	acquire := func(ctx context.Context, l *fake, permits int64) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		return l.Acquire(ctx, permits)
	}
	for name, test := range map[string]struct {
		change  func(s *state)
		permits int64
		want    string // the error
	}{
		"permits are released": {func(s *state) { s.grants = nil }, 1, ""},
		"a higher limit":       {func(s *state) { s.limit = 50 }, 30, ""},
		"deleted":              {func(s *state) { s.deleted = true }, 1, "NOTSET"},
		"nothing":              {func(*state) {}, 11, "11 permits of 10"},
		"nothing, and no time": {func(*state) {}, 1, "deadline"},
		"another limiter":      {func(s *state) { *s = state{limit: 20, every: 1000} }, 12, ""},
	} {
		for who, other := range map[string]bool{"another client": true, "this client": false} {
			for call, ask := range map[string]func(context.Context, *fake, int64) error{
				"TryAcquireWithin": within, "Acquire": acquire,
			} {
				t.Run(name+" by "+who+", "+call, func(t *testing.T) {
					inQueue(t, 10, time.Hour, func(q *line, l *fake) {
						ctx, cancel := context.WithCancel(q.Context())
						defer cancel()
						q.RequireGranted(l, 10)
						q.done.Go(func() { _ = l.Acquire(ctx, 1) })
						synctest.Wait()
						time.Sleep(time.Minute)
						q.change(l, test.change)
						if !other {
							change(q.Context(), l.Engine, l.ID)
						}
						before, start := q.Scripts.Load(), time.Now()
						err := ask(q.Context(), l, test.permits)
						if test.want == "" {
							assert.NoError(t, err)
						} else {
							assert.ErrorContains(t, err, test.want)
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

// TestTryAcquireWithin_ServerHangs_EndsWithTheTimeout: the error reports that Redis has not
// answered. Permits that arrive later are refunded.
func TestTryAcquireWithin_ServerHangs_EndsWithTheTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{time.Nanosecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		inQueue(t, 10, time.Hour, func(q *line, l *fake) {
			q.Latency.Store(int64(8 * time.Second))
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
			time.Sleep(time.Minute)
			q.Latency.Store(0)
			assert.EqualValues(t, 10, q.free(l))
		})
	}
}
