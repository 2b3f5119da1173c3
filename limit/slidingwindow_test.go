package limit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// TestSlidingWindow_AnyInterval_KeepsTheLimit: after any requests at any times, no interval has
// more than the permits. A permit returns an interval and a cell after it was taken.
func TestSlidingWindow_AnyInterval_KeepsTheLimit(t *testing.T) {
	b := newBench(t)
	policy := SlidingWindow{20, 100 * ms, 5}
	l := New(b.client, "name", policy)
	random := rand.New(rand.NewPCG(5, 6))
	type grant struct{ at, n int64 }
	var grants []grant
	for range steps {
		b.pass(time.Duration(random.Int64N(int64(15 * ms))))
		n := 1 + random.Int64N(10)
		ok, err := l.TryAcquire(t.Context(), n)
		require.NoError(t, err)
		within := func(d time.Duration) (sum int64) {
			for _, g := range grants {
				if g.at > b.now-d.Microseconds() {
					sum += g.n
				}
			}
			return sum
		}
		if ok {
			grants = append(grants, grant{b.now, n})
			require.LessOrEqual(t, within(policy.Interval), policy.Permits)
		} else {
			require.Greater(t, within(policy.Interval+20*ms)+n, policy.Permits)
		}
	}
	assert.Greater(t, len(grants), steps/10)
	assert.Less(t, len(grants), steps*9/10)
}

// TestRefund_SlidingWindow_ComesFromItsOwnCell: if it still exists.
func TestRefund_SlidingWindow_ComesFromItsOwnCell(t *testing.T) {
	b := newBench(t)
	l := New(b.client, "name", SlidingWindow{10, time.Second, 10})
	var times []int64
	var marks [][]string
	for range 4 {
		marks = append(marks, b.take(l, 2))
		times = append(times, b.now)
		b.pass(200 * ms)
	}
	reset := func(at int64) time.Duration { return micros(at - at%1e5 + 11e5 - b.now) }
	want := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 3, ResetAfter: reset(times[3])}
	assert.Equal(t, want, b.refund(l, marks[1], 1), "a part of a cell")
	want.Remaining = 4
	assert.Equal(t, want, b.refund(l, marks[1], 2), "all that is left of it")
	assert.Equal(t, want, b.refund(l, marks[1], 2), "nothing is left of it")
	want.Remaining = 5
	assert.Equal(t, want, b.refund(l, marks[3], 1), "a part of the newest")
	want.Remaining, want.ResetAfter = 6, reset(times[2])
	assert.Equal(t, want, b.refund(l, marks[3], 3), "the newest")
	refused, err := l.Take(t.Context(), 7)
	require.NoError(t, err)
	assert.Equal(t, reset(times[0]), refused.RetryAfter)
	assert.EqualValues(t, 8, b.refund(l, marks[0], 2).Remaining)
	assert.EqualValues(t, 10, b.refund(l, marks[2], 1000).Remaining)
	assert.Empty(t, b.redis.Keys())
	assert.EqualValues(t, 10, b.refund(l, marks[2], 1).Remaining)
}

// TestSlidingWindow_PermitsChange_GrantsCount: more or fewer permits take effect at once, and the
// grants count.
func TestSlidingWindow_PermitsChange_GrantsCount(t *testing.T) {
	for _, policies := range [][3]Policy{
		{SlidingWindow{10, time.Second, 10}, SlidingWindow{5, time.Second, 0}, SlidingWindow{20, time.Second, 10}},
		{SlidingLog{10, time.Second}, SlidingLog{5, time.Second}, SlidingLog{20, time.Second}},
	} {
		b := newBench(t)
		b.now -= b.now % 1e6
		_, err := New(b.client, "name", policies[0]).Take(t.Context(), 7)
		require.NoError(t, err)
		fewer, err := New(b.client, "name", policies[1]).Take(t.Context(), 1)
		require.NoError(t, err)
		assert.False(t, fewer.Allowed)
		assert.Zero(t, fewer.Remaining)
		assert.EqualValues(t, 5, fewer.Limit)
		more, err := New(b.client, "name", policies[2]).Take(t.Context(), 13)
		require.NoError(t, err)
		assert.True(t, more.Allowed)
	}
}

// TestRelease_ExpiredByThisClock_ChangesNothing: another clock may be behind this one.
func TestRelease_ExpiredByThisClock_ChangesNothing(t *testing.T) {
	for _, policy := range []Policy{
		SlidingWindow{10, time.Second, 10}, SlidingLog{10, time.Second}, Calendar{10, Day, nil},
		FixedWindow{10, time.Second, false}, FixedWindow{10, time.Second, true},
		TokenBucket{10, 10, time.Second}, LeakyBucket{10, 10, time.Second},
	} {
		b := newBench(t)
		b.back = true
		l := New(b.client, "name", policy)
		marks := b.take(l, 3)
		before := b.redis.Dump()
		b.pass(24 * time.Hour)
		b.refund(l, marks, 3)
		require.NoError(t, l.Release(t.Context(), 3))
		assert.Equal(t, before, b.redis.Dump(), "%T", policy)
	}
}

func TestSlidingWindow_ForeignState_IsAStateError(t *testing.T) {
	b := newBench(t)
	policy := SlidingWindow{5, time.Second, 10}
	const key = "{name}:sliding:1000:10"
	cell := b.now / 1e5
	for _, text := range []string{"x", "1 2 3", "a 1 2 3 4", "a 1 2 3 4:", "a -1 2 3", "a 1 2 3 ", "a 1 2.5 3",
		"a 1 99999999999999999999 4",
		"a " + strings.Repeat("9", 400) + " 2 3", "a 1 2 " + strings.Repeat("9", 400), fmt.Sprintf("a 5 %d 1 4",
			cell), fmt.Sprintf("a 5 %d 1 %d:1:1", cell, cell-12)} {
		if text == "a 1 2 3 4" || text == "a 1 2 3 4:" || text == "a 1 2 3 " {
			text = strings.Replace(text, "2", fmt.Sprint(cell), 1) // expired cells are not read
		}
		require.NoError(t, b.redis.Set(key, text))
		b.foreign(policy, text)
	}
	b.redis.HSet(key, "m", "1 2 3 4")
	b.foreign(policy, "hash")
}
