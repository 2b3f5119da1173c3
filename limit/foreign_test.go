package limit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// foreign checks that all calls fail with a *StateError that contains a text, and change nothing:
// no permits of another policy are taken either. Reset deletes the state.
func (b *bench) foreign(policy Policy, text string) {
	b.Helper()
	before := b.redis.Dump()
	l := New(b.client, "name", Calendar{5, Year, nil}, policy)
	_, err := l.Take(b.Context(), 1)
	var state *rratelimiter.StateError
	require.ErrorAs(b, err, &state, text)
	assert.Equal(b, rratelimiter.StateError{Key: l.keys[1], Value: text}, *state)
	require.ErrorAs(b, l.Release(b.Context(), 1), &state, text)
	_, err = l.Charge(b.Context(), 1)
	require.ErrorAs(b, err, &state, text)
	_, err = l.Peek(b.Context())
	require.ErrorAs(b, err, &state, text)
	assert.Equal(b, before, b.redis.Dump(), text)
	require.NoError(b, l.Reset(b.Context()))
	require.Empty(b, b.redis.Keys())
}

// TestPolicies_ForeignState_IsAStateError: the texts have the wrong words, or numbers that are
// impossible in the state.
func TestPolicies_ForeignState_IsAStateError(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("9", 400)
	cell := fmt.Sprint(b.now / 1e5)
	bucket := []string{
		"x", "a -1 2 3", "a 1 2 3 ", "a 1 2 3 x", "a 1 2 3 4 5 6", "a 1 2.5 3", "a 0x10 2 3",
		"a 1 2 3\n", "a nan 2 3", "a 1 inf 3", "0123", "1 2 3",
		"a " + long + " 2 3", "a 1 " + long + " 3", "a 1 2 " + long, "a 1 2 3 " + long, "a 1 2 3 4 " + long,
		long, "a 1 99999999999999999 3",
		"a 1 2 99999999999999999", "a 9999999999999999999 2 3",
	}
	for _, test := range []struct {
		policy Policy
		texts  []string
	}{
		{FixedWindow{5, time.Second, false},
			[]string{"x", "1", "1 2", "1 2 3 4", "a -1 2", "a 1 -2", "a 1.5 2", " a 1 2", "a 1 2 "}},
		{Calendar{5, Day, nil}, []string{"x", "1", "1 2", "1 2 3 4", "a -2 3", "a 2 -3", "a 2.5 3", " a 2 3", "a 2 3 ",
			"a 9999999999999999 3", "a 9000000000000 99999999999999999"}},
		{SlidingWindow{5, time.Second, 10}, []string{
			"x", "1 2 3", "a -1 2 3", "a 1 2.5 3", "a 1 99999999999999999999 4", "a " + long + " 2 3", "a 1 2 " + long,
			"a 1 " + cell + " 3 4", "a 1 " + cell + " 3 4:", "a 1 " + cell + " 3 ", // expired cells are not read
			"a 5 " + cell + " 1 4", "a 5 " + cell + " 1 " + fmt.Sprint(b.now/1e5-12) + ":1:1",
		}},
		{TokenBucket{5, 1, time.Second}, bucket},
		{LeakyBucket{5, 1, time.Second}, bucket},
		{Smooth{Permits: 1, Interval: time.Second}, []string{
			"x", "a", "a 1", "a 1 2", "a 1 2 3 4 5", "a 1 2 3 -4", "a 1 2 3 99999999999999999", "a 1 99999999999999999 4",
			"a 1 2 x", "a 1 -2 3", "a 1 2 -3",
			"a -1 2 3", "a 1.2.3 4 5", "a 1e 2 3", "a nan 2 3", "a inf 2 3", "a 1 2 3 ", " a 1 2 3", "a 1 2.5 3", "1 2 3",
		}},
	} {
		key := New(b.client, "name", test.policy).keys[0]
		for _, text := range test.texts {
			require.NoError(t, b.redis.Set(key, text))
			b.foreign(test.policy, text)
		}
		b.redis.HSet(key, "field", "value")
		b.foreign(test.policy, "hash")
	}
}

// TestSlidingLog_ForeignState_IsAStateError: an entry that a call reads is not the log's.
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
