package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// When a queue calls Redis although this Client has changed nothing.

// within starts a TryAcquireWithin and logs its end.
func (q *line) within(l *fake, who string, permits int64, timeout time.Duration) {
	q.done.Go(func() {
		ok, err := l.TryAcquireWithin(q.Context(), permits, timeout)
		if err == nil && !ok {
			err = errors.New("not in time")
		}
		q.say(who, err)
	})
	synctest.Wait()
}

// TestQueue_LimiterIsDeleted_CallersLearnSoon: well before their deadlines, with one call.
func TestQueue_LimiterIsDeleted_CallersLearnSoon(t *testing.T) {
	t.Run("within a second", func(t *testing.T) {
		inQueue(t, 10, time.Hour, func(q *line, l *fake) {
			q.RequireGranted(l, 10)
			q.wait(l, "a", 1)
			time.Sleep(5 * time.Second)
			before := q.Scripts.Load()
			q.wait(l, "b", 1) // the last call is old
			assert.Equal(t, before+1, q.Scripts.Load())
			time.Sleep(100 * time.Millisecond)
			q.change(l, func(s *state) { s.deleted = true })
			time.Sleep(100 * time.Millisecond)
			q.wait(l, "c", 1)
			time.Sleep(100 * time.Millisecond)
			q.wait(l, "d", 1)
			q.done.Wait()
			assert.ElementsMatch(t, []string{"a failed at 6s", "b failed at 6s", "c failed at 6s", "d failed at 6s"}, q.said())
			assert.Equal(t, before+2, q.Scripts.Load())
		})
	})
	t.Run("many, with one call", func(t *testing.T) {
		inQueue(t, 10, time.Hour, func(q *line, l *fake) {
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
	})
	t.Run("in half of the time that is left", func(t *testing.T) {
		inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
			q.RequireGranted(l, 10)
			time.Sleep(9500 * time.Millisecond)
			q.wait(l, "a", 1)
			q.change(l, func(s *state) { s.deleted = true })
			q.within(l, "b", 1, 600*time.Millisecond) // can be served after 500 ms
			q.wait(l, "c", 1)                         // and this one need not know so soon
			q.done.Wait()
			assert.ElementsMatch(t, []string{"a failed at 9.8s", "b failed at 9.8s", "c failed at 9.8s"}, q.said())
		})
	})
}

// TestQueue_CallersArriveDuringACall_NextReplyAnswersAll: the reply to the first call is older than they
// are. They may be more than a call carries.
func TestQueue_CallersArriveDuringACall_NextReplyAnswersAll(t *testing.T) {
	const many = 2*MaxRequests + 500
	for name, test := range map[string]struct {
		callers int
		deleted bool
	}{"few": {20, false}, "many": {many, false}, "many, of a limiter that was deleted": {many, true}} {
		t.Run(name, func(t *testing.T) {
			inQueue(t, 10, time.Hour, func(q *line, l *fake) {
				q.RequireGranted(l, 10)
				ctx, cancel := context.WithCancel(q.Context())
				defer cancel()
				q.done.Go(func() { _ = l.Acquire(ctx, 1) })
				time.Sleep(5500 * time.Millisecond) // between two pings of rueidis
				q.Latency.Store(int64(100 * time.Millisecond))
				before := q.Scripts.Load()
				q.within(l, "first", 1, time.Minute)
				time.Sleep(50 * time.Millisecond) // its call is under way
				q.change(l, func(s *state) { s.deleted = test.deleted })
				for range test.callers {
					q.done.Go(func() {
						ok, err := l.TryAcquireWithin(ctx, 1, time.Minute)
						assert.False(t, ok)
						if test.deleted {
							assert.ErrorContains(t, err, "NOTSET")
						} else {
							assert.NoError(t, err)
						}
						assert.Equal(t, 5700*time.Millisecond, time.Since(q.start).Round(time.Millisecond))
					})
				}
				time.Sleep(time.Second)
				assert.Contains(t, q.said(), "first failed at 5.6s")
				assert.Equal(t, before+2, q.Scripts.Load())
				cancel()
			})
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
		ok, err := l.TryAcquireWithin(long, 1, 5*time.Second)
		require.NoError(t, err)
		assert.False(t, ok)
		_, err = l.TryAcquireWithin(short, 1, 20*time.Second)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, time.Since(q.start).Round(time.Millisecond), "both end at once")
		ok, err = l.TryAcquireWithin(long, 1, 15*time.Second)
		require.NoError(t, err)
		assert.True(t, ok)
	})
}

// TestQueue_ReplyForAnotherCaller_EndsUnreachableDeadlines: the callers between them count.
func TestQueue_ReplyForAnotherCaller_EndsUnreachableDeadlines(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		other := q.limiter(10, 10*time.Second)
		q.RequireGranted(other, 1)
		time.Sleep(time.Second)
		q.RequireGranted(other, 9)
		q.wait(l, "a", 1)
		q.wait(l, "b", 5)
		q.within(l, "c", 4, 13*time.Second) // at 11s, with b
		time.Sleep(2 * time.Second)
		require.NoError(t, other.Release(q.Context(), 10))
		q.RequireGranted(other, 5)
		time.Sleep(2 * time.Second)
		q.RequireGranted(other, 4)
		time.Sleep(6 * time.Second)
		assert.ElementsMatch(t, []string{"a at 10s", "c failed at 10s"}, q.said(),
			"c is behind b, which can be served at 13s: at 15s")
	})
}

func TestQueue_RequestAheadExceedsTheNewRate_DoesNotCount(t *testing.T) {
	inQueue(t, 100, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 100)
		q.wait(l, "a", 1)
		q.wait(l, "b", 50)
		time.Sleep(2 * time.Second) // all are asked for
		q.change(l, func(s *state) { s.limit = 10 })
		assert.True(t, q.granted(l, 1, 15*time.Second),
			"10 permits are free at 10s: 1 is a's, b requests more than the rate, the rest are free")
	})
}
