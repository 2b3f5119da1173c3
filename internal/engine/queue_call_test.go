package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// When a queue calls Redis although this Client has changed nothing.

// TestQueue_LimiterIsDeleted_CallersLearnSoon: well before their deadlines, with one call.
func TestQueue_LimiterIsDeleted_CallersLearnSoon(t *testing.T) {
	runInQueue(t, "within a second", 10, time.Hour, func(q *line, l *fake) {
		q.RequireGranted(l, 10)
		q.wait(l, "a", 1, 0)
		time.Sleep(5 * time.Second)
		before := q.Scripts.Load()
		q.wait(l, "b", 1, 0) // the last call is old
		assert.Equal(t, before+1, q.Scripts.Load())
		time.Sleep(100 * time.Millisecond)
		q.change(l, func(s *state) { s.deleted = true })
		time.Sleep(100 * time.Millisecond)
		q.wait(l, "c", 1, 0)
		time.Sleep(100 * time.Millisecond)
		q.wait(l, "d", 1, 0)
		q.done.Wait()
		assert.ElementsMatch(t, []string{"a failed at 6s", "b failed at 6s", "c failed at 6s", "d failed at 6s"}, q.said())
		assert.Equal(t, before+2, q.Scripts.Load())
	})
	runInQueue(t, "many, with one call", 10, time.Hour, func(q *line, l *fake) {
		q.RequireGranted(l, 10)
		for range MaxRequests + 100 {
			q.done.Go(func() { assert.ErrorContains(t, l.Acquire(q.Context(), 1), "NOTSET") })
		}
		time.Sleep(5 * time.Second)
		change(q.Context(), l.Engine, l.ID) // all are checked, which a long queue does not do at once again
		synctest.Wait()
		before := q.Scripts.Load()
		q.change(l, func(s *state) { s.deleted = true })
		change(q.Context(), l.Engine, l.ID)
		q.done.Wait()
		assert.Equal(t, before+1, q.Scripts.Load())
	})
	runInQueue(t, "many, above a limit that is lower", 10, time.Hour, func(q *line, l *fake) {
		q.RequireGranted(l, 10)
		ctx, cancel := context.WithCancel(q.Context())
		for range MaxRequests {
			q.done.Go(func() { _ = l.Acquire(ctx, 1) })
		}
		synctest.Wait()
		q.wait(l, "large", 8, 0)
		change(q.Context(), l.Engine, l.ID)
		synctest.Wait()
		q.change(l, func(s *state) { s.limit = 5 })
		q.wait(l, "new", 1, time.Minute)
		assert.ElementsMatch(t, []string{"large failed at 0s", "new failed at 0s"}, q.said())
		cancel()
	})
	runInQueue(t, "in half of the time that is left", 10, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 10)
		time.Sleep(9500 * time.Millisecond)
		q.wait(l, "a", 1, 0)
		q.change(l, func(s *state) { s.deleted = true })
		q.wait(l, "b", 1, 600*time.Millisecond) // can be served after 500 ms
		q.wait(l, "c", 1, 0)                    // and this one need not know so soon
		q.done.Wait()
		assert.ElementsMatch(t, []string{"a failed at 9.8s", "b failed at 9.8s", "c failed at 9.8s"}, q.said())
	})
}

// TestQueue_CallersArriveDuringACall_NextReplyAnswersAll: the reply to the first call is older than they
// are. They may be more than a call carries.
func TestQueue_CallersArriveDuringACall_NextReplyAnswersAll(t *testing.T) {
	const many = 2*MaxRequests + 500
	for name, test := range map[string]struct {
		callers int
		deleted bool
		patient int // callers without a deadline before them
	}{"few": {20, false, 0}, "many": {many, false, 0}, "many, of a limiter that was deleted": {many, true, 0},
		"one behind many": {1, false, many}} {
		runInQueue(t, name, 10, time.Hour, func(q *line, l *fake) {
			q.RequireGranted(l, 10)
			ctx, cancel := context.WithCancel(q.Context())
			defer cancel()
			q.done.Go(func() { _ = l.Acquire(ctx, 1) })
			time.Sleep(5500 * time.Millisecond) // between two pings of rueidis
			q.Latency.Store(int64(100 * time.Millisecond))
			before := q.Scripts.Load()
			q.wait(l, "first", 1, time.Minute)
			time.Sleep(50 * time.Millisecond) // its call is under way
			q.change(l, func(s *state) { s.deleted = test.deleted })
			for range test.patient {
				q.done.Go(func() { _ = l.Acquire(ctx, 1) })
			}
			synctest.Wait()
			for range test.callers {
				q.done.Go(func() {
					ok, err := l.TryAcquireWithin(ctx, 1, time.Minute)
					assert.False(t, ok)
					assert.Equal(t, test.deleted, err != nil)
					assert.Equal(t, 5700*time.Millisecond, time.Since(q.start).Round(time.Millisecond))
				})
			}
			time.Sleep(200 * time.Millisecond) // before the next call
			assert.Contains(t, q.said(), "first failed at 5.6s")
			assert.Equal(t, before+2, q.Scripts.Load())
			cancel()
		})
	}
}

func TestTryAcquireWithin_DeadlineAndTimeout_SoonerOneCounts(t *testing.T) {
	inQueue(t, 1, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 1)
		long, cancel := context.WithTimeout(q.Context(), 20*time.Second)
		defer cancel()
		short, cancel := context.WithTimeout(q.Context(), 5*time.Second)
		defer cancel()
		q.RequireFalse(l.TryAcquireWithin(long, 1, 5*time.Second))
		_, err := l.TryAcquireWithin(short, 1, 20*time.Second)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, time.Since(q.start).Round(time.Millisecond), "both end at once")
		q.RequireTrue(l.TryAcquireWithin(long, 1, 15*time.Second))
	})
}

// TestQueue_ReplyForAnotherCaller_EndsUnreachableDeadlines: another client has taken permits again.
func TestQueue_ReplyForAnotherCaller_EndsUnreachableDeadlines(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 10)
		q.wait(l, "a", 1, 0)
		q.wait(l, "b", 1, 15*time.Second)
		time.Sleep(2 * time.Second)
		q.change(l, func(s *state) { s.grants[0].returns = q.start.Add(20 * time.Second) })
		q.wait(l, "c", 1, 0)
		assert.Equal(t, []string{"b failed at 2s"}, q.said())
	})
}

// TestQueue_StateChangedBeforeTheCaller_IsNotDeniedOnStaleState: only a reply to a call that left
// after the caller arrived denies it.
func TestQueue_StateChangedBeforeTheCaller_IsNotDeniedOnStaleState(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(s *state)
		permits int64
		want    string // the error
	}{
		"permits are released": {func(s *state) { s.grants = nil }, 1, "<nil>"},
		"a higher limit":       {func(s *state) { s.limit = 50 }, 30, "<nil>"},
		"deleted":              {func(s *state) { s.deleted = true }, 1, "NOTSET"},
		"nothing":              {func(*state) {}, 11, "11 permits of 10"},
		"nothing, and no time": {func(*state) {}, 1, "deadline"},
		"another limiter":      {func(s *state) { *s = state{limit: 20, every: time.Second} }, 12, "<nil>"},
	} {
		for who, other := range map[string]bool{"another client": true, "this client": false} {
			runInQueue(t, name+" by "+who, 10, time.Hour, func(q *line, l *fake) {
				ctx, cancel := context.WithCancel(q.Context())
				defer cancel()
				q.RequireGranted(l, 10)
				q.done.Go(func() { _ = l.Acquire(ctx, 1) })
				synctest.Wait()
				time.Sleep(time.Minute)
				q.change(l, test.change)
				if !other {
					change(ctx, l.Engine, l.ID)
				}
				before, start := q.Scripts.Load(), time.Now()
				soon, cancel := context.WithTimeout(ctx, 5*time.Minute)
				defer cancel()
				err := l.Acquire(soon, test.permits)
				assert.Contains(t, fmt.Sprint(err), test.want)
				assert.Zero(t, time.Since(start), "at once")
				if other {
					assert.Positive(t, q.Scripts.Load()-before, "calls to Redis for the new caller")
				}
			})
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
			served, errs := redistest.Crowd(5, func(int) (bool, error) { return l.TryAcquireWithin(q.Context(), 1, timeout) })
			assert.Equal(t, timeout, time.Since(start))
			for i, err := range errs { // the first is in a call, the others wait for theirs
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "has not answered")
				assert.False(t, served[i])
			}
			time.Sleep(time.Minute)
			q.Latency.Store(0)
			assert.EqualValues(t, 10, q.free(l))
		})
	}
}

// TestCallTime_SlowCall_DoublesItAtMost: a call that takes much longer than others is no measure.
func TestCallTime_SlowCall_DoublesItAtMost(t *testing.T) {
	var c callTime
	for _, call := range []struct {
		took time.Duration
		want int64
	}{
		{0, 10}, {5, 10}, {12, 12}, {10_000, 24}, {22, 23}, {80, 46}, {80, 80}, {1e9, 160}, {1e9, 320}, {1e9, 640},
		{1e9, 1000}, {1e9, 1000}, {0, 968},
	} {
		c.add(call.took * time.Millisecond)
		assert.Equal(t, call.want, c.get().Milliseconds(), "after %d ms", call.took)
	}
}
