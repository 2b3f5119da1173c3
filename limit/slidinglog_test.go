package limit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TestRelease_LongLogs_TakesOneCall: Release returns more entries than a page, to each policy.
func TestRelease_LongLogs_TakesOneCall(t *testing.T) {
	b := newBench(t)
	policies := []Policy{SlidingLog{2000, 10 * time.Second}, FixedWindow{2000, 10 * time.Second, false},
		SlidingLog{2000, 20 * time.Second}}
	l := New(b.client, "name", policies...)
	for range 600 {
		b.pass(ms)
		ok, err := l.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.NoError(t, l.Release(t.Context(), 550))
	all, err := l.Peek(t.Context())
	require.NoError(t, err)
	for _, d := range all {
		assert.EqualValues(t, 1950, d.Remaining)
	}
}

// TestRefund_SlidingLog_ComesFromItsOwnEntry: if it still exists.
func TestRefund_SlidingLog_ComesFromItsOwnEntry(t *testing.T) {
	b := newBench(t)
	l := New(b.client, "name", SlidingLog{10, time.Second})
	first := b.now
	var times []int64
	var marks [][]string
	for range 4 {
		marks = append(marks, b.take(l, 2))
		times = append(times, b.now)
		b.pass(100 * ms)
	}
	reset := func(at int64) time.Duration { return micros(at - at%1000 + 1e6 - b.now) }
	want := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 3, ResetAfter: reset(times[3])}
	assert.Equal(t, want, b.refund(l, marks[1], 1), "a part of an entry")
	want.Remaining = 4
	assert.Equal(t, want, b.refund(l, marks[1], 2), "all that is left of it")
	assert.Equal(t, want, b.refund(l, marks[1], 2), "nothing is left of it")
	want.Remaining = 5
	assert.Equal(t, want, b.refund(l, marks[3], 1), "a part of the newest")
	want.Remaining, want.ResetAfter = 6, reset(times[2])
	assert.Equal(t, want, b.refund(l, marks[3], 1), "the newest")
	entries, err := b.redis.List("{name}:log:1000")
	require.NoError(t, err)
	assert.Len(t, entries, 3, "and an empty one")
	refused, err := l.Take(t.Context(), 7)
	require.NoError(t, err)
	assert.Equal(t, reset(first), refused.RetryAfter)
	b.pass(600 * ms) // the first has expired
	assert.EqualValues(t, 8, b.refund(l, marks[0], 2).Remaining)
	assert.EqualValues(t, 10, b.refund(l, marks[2], 1000).Remaining)
	assert.Empty(t, b.redis.Keys())
	assert.EqualValues(t, 10, b.refund(l, marks[2], 1).Remaining)
}

// foreign checks that all calls fail with a *StateError that contains a text, and change nothing.
func (b *bench) foreign(policy Policy, text string) {
	b.Helper()
	before := b.redis.Dump()
	l := New(b.client, "name", policy)
	_, err := l.Take(b.Context(), 1)
	var state *rratelimiter.StateError
	require.ErrorAs(b, err, &state, text)
	assert.Equal(b, rratelimiter.StateError{Key: l.keys[0], Value: text}, *state)
	require.ErrorAs(b, l.Release(b.Context(), 1), &state, text)
	_, err = l.Charge(b.Context(), 1)
	require.ErrorAs(b, err, &state, text)
	_, err = l.Peek(b.Context())
	require.ErrorAs(b, err, &state, text)
	assert.Equal(b, before, b.redis.Dump(), text)
	b.redis.FlushAll()
}

func TestSlidingLog_ForeignState_IsAStateError(t *testing.T) {
	b := newBench(t)
	policy := SlidingLog{5, time.Second}
	const key = "{name}:log:1000"
	now := b.now / 1000
	for _, entry := range []string{"", "x", "a 1 2 3", "a 1 2 3 4 5", "a -1 2 3 4", "a 1 2.5 3 4", "a 1 2 3 4 ",
		"a 99999999999999999999 0 3 4", "a 1 99999999999999999999 3 4",
		"a " + strings.Repeat("9", 400) + " 2 3 4", "a 1 2 3 " + strings.Repeat("9", 400), "a 1 0 99999999999999999 3"} {
		b.redis.Push(key, entry)
		b.foreign(policy, entry)
	}
	for _, entry := range []string{"", "x", "a 1", "1 2 3", "a -1 0 2 3", "a 1 0 2 3 "} {
		newest := fmt.Sprintf("a %d 0 1 50", now)
		b.redis.Push(key, entry, newest)
		b.foreign(policy, entry)
		b.redis.Push(key, slices.Concat(slices.Repeat([]string{"a 1 0 1 1"}, 7), []string{entry, newest})...)
		b.foreign(policy, entry)
	}
	require.NoError(t, b.redis.Set(key, "x"))
	b.foreign(policy, "string")
}

// TestReturnsForecast_Earliest_AddsIntervals: a request for more permits than the limit waits an
// interval more for each time that all return.
func TestReturnsForecast_Earliest_AddsIntervals(t *testing.T) {
	o, ok := returnsOf(10, time.Second, []int64{7, 900_000, 100_000, 3, 900_000, 4})
	require.True(t, ok)
	for permits, want := range map[int64]time.Duration{
		3: 0, 4: 100 * ms, 6: 100 * ms, 7: 900 * ms, 10: 900 * ms, 13: time.Second, 14: 1100 * ms, 20: 1900 * ms,
		1004:          100100 * ms,
		math.MaxInt64: engine.Never,
	} {
		assert.Equal(t, want, o.earliest(permits), permits)
	}
	for _, reply := range [][]int64{{}, {1}, {1, 2, 3}} {
		_, ok = returnsOf(10, time.Second, reply)
		assert.False(t, ok)
	}
}
