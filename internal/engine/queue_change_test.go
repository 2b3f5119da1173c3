package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

func TestQueue_RequestAheadExceedsTheNewRate_DoesNotCount(t *testing.T) {
	inQueue(t, rratelimiter.Rate{Permits: 100, Interval: 10 * second}, func(q *line, l *rratelimiter.Limiter) {
		q.Take(l, 100)
		q.wait(l, "a", 1, 0)
		q.wait(l, "b", 50, 0)
		pass(2 * second) // all are asked for
		changed := rratelimiter.Rate{Permits: 10, Interval: 10 * second}
		other := rratelimiter.New(q.Conn).Limiter("limiter")
		require.NoError(t, other.SetRate(q.Context(), changed, rratelimiter.KeepState()))
		assert.True(t, q.granted(l, 1, 15*second),
			"10 permits are free at 10s: 1 is a's, b requests more than the rate, the rest are free")
	})
}

// TestQueue_IntervalGrows_UnreachableDeadlinesEndAtOnce: at every place in the queue.
func TestQueue_IntervalGrows_UnreachableDeadlinesEndAtOnce(t *testing.T) {
	inQueue(t, rratelimiter.Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *rratelimiter.Limiter) {
		q.Take(l, 10)
		for i := range 30 {
			q.wait(l, fmt.Sprint(i), 1, time.Minute)
		}
		pass(2 * second)
		changed := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
		require.NoError(t, l.SetRate(q.Context(), changed, rratelimiter.KeepState()))
		pass(second)
		q.mu.Lock()
		defer q.mu.Unlock()
		assert.Len(t, q.log, 30, "none of them is served before an hour has passed")
	})
}

// TestQueue_ReplyForAnotherCaller_EndsUnreachableDeadlines: the callers between them count.
func TestQueue_ReplyForAnotherCaller_EndsUnreachableDeadlines(t *testing.T) {
	inQueue(t, rratelimiter.Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *rratelimiter.Limiter) {
		other := rratelimiter.New(q.Conn).Limiter("limiter")
		q.Take(other, 1)
		pass(second)
		q.Take(other, 9)
		q.wait(l, "a", 1, 0)
		q.wait(l, "b", 5, 0)
		q.within(l, "c", 4, 13*second) // at 11s, with b
		pass(2 * second)
		require.NoError(t, other.Release(q.Context(), 10))
		q.Take(other, 5)
		pass(2 * second)
		q.Take(other, 4)
		pass(6 * second)
		assert.ElementsMatch(t, []string{"a at 10s", "c failed at 10s"}, q.said(),
			"c is behind b, which can be served at 13s: at 15s")
	})
}

func TestQueue_ReplyForTheCaller_EndsItsUnreachableDeadline(t *testing.T) {
	inQueue(t, rratelimiter.Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *rratelimiter.Limiter) {
		other := rratelimiter.New(q.Conn).Limiter("limiter")
		q.Take(other, 10)
		q.within(l, "a", 1, 11*second)
		pass(2 * second)
		require.NoError(t, other.Release(q.Context(), 10))
		q.Take(other, 10)
		q.wait(l, "b", 1, 0) // the last call is old
		assert.Equal(t, []string{"a failed at 2s"}, q.said(), "at 12s")
	})
}

func TestQueue_RateFalls_RequestsAboveItEndAtOnce(t *testing.T) {
	inQueue(t, rratelimiter.Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *rratelimiter.Limiter) {
		q.Take(l, 10)
		for i := range 20 {
			q.wait(l, fmt.Sprint(i), 1, 0)
		}
		q.wait(l, "large", 5, 0)
		pass(2 * second)
		changed := rratelimiter.Rate{Permits: 1, Interval: time.Minute}
		require.NoError(t, l.SetRate(q.Context(), changed, rratelimiter.KeepState()))
		pass(second)
		q.mu.Lock()
		assert.Equal(t, []string{"large failed at 2s"}, q.log)
		q.mu.Unlock()
	})
}
