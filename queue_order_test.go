package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestSmallRequestsDoNotOvertakeALargeOne in a call that carries both.
func TestSmallRequestsDoNotOvertakeALargeOne(t *testing.T) {
	inQueue(t, Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *Limiter) {
		q.Take(l, 5)
		pass(second)
		q.Latency.Store(int64(100 * time.Millisecond))
		q.wait(l, "first", 1, 0)
		q.wait(l, "large", 8, 0)
		q.wait(l, "small", 1, 0)
		q.wait(l, "smaller", 1, 0)
		q.done.Wait()
		assert.ElementsMatch(t, []string{"first at 1.1s", "large at 10.1s", "small at 10.1s", "smaller at 11.1s"}, q.said())
	})
}
