package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
)

// TestRefund_LogAndCells_ComesFromItsOwnEntry: if it still exists.
func TestRefund_LogAndCells_ComesFromItsOwnEntry(t *testing.T) {
	for _, test := range []struct {
		policy  Policy
		apart   time.Duration // the entries
		unit    int64         // microseconds of an entry
		counted int64         // microseconds from its begin until its permits return
		expires time.Duration // until the first entry has expired
	}{
		{SlidingLog{10, time.Second}, 100 * ms, 1e3, 1e6, 600 * ms},
		{SlidingWindow{10, time.Second, 10}, 200 * ms, 1e5, 11e5, 300 * ms},
	} {
		b := newBench(t)
		l := New(b.client, "name", test.policy)
		var times []int64
		var marks [][]string
		for range 4 {
			marks = append(marks, b.take(l, 2))
			times = append(times, b.now)
			b.pass(test.apart)
		}
		reset := func(at int64) time.Duration { return micros(at - at%test.unit + test.counted - b.now) }
		want := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 3, ResetAfter: reset(times[3])}
		assert.Equal(t, want, b.refund(l, marks[1], 1), "a part of an entry")
		want.Remaining = 4
		assert.Equal(t, want, b.refund(l, marks[1], 2), "all that is left of it")
		assert.Equal(t, want, b.refund(l, marks[1], 2), "nothing is left of it")
		want.Remaining = 5
		assert.Equal(t, want, b.refund(l, marks[3], 1), "a part of the newest")
		want.Remaining, want.ResetAfter = 6, reset(times[2])
		assert.Equal(t, want, b.refund(l, marks[3], 3), "the newest")
		if entries, err := b.redis.List(l.keys[0]); err == nil {
			assert.Len(t, entries, 3, "and an empty one")
		}
		assert.Equal(t, reset(times[0]), must(t, l.Take, 7).RetryAfter)
		b.pass(test.expires)
		assert.EqualValues(t, 8, b.refund(l, marks[0], 2).Remaining)
		assert.EqualValues(t, 10, b.refund(l, marks[2], 1000).Remaining)
		assert.Empty(t, b.redis.Keys())
		assert.EqualValues(t, 10, b.refund(l, marks[2], 1).Remaining)
	}
}
