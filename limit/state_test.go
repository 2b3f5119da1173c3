package limit

import (
	"context"
	"errors"
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
func (f *clocked) foreign(policy Policy, text string) {
	f.Helper()
	before := f.redis.Dump()
	l := New(f.client, "name", Calendar{5, Year, nil}, policy)
	_, err := l.Take(f.Context(), 1)
	var state *rratelimiter.StateError
	require.ErrorAs(f, err, &state, text)
	assert.Equal(f, rratelimiter.StateError{Key: l.protocol.keys[1], Value: text}, *state)
	require.ErrorAs(f, l.Release(f.Context(), 1), &state, text)
	_, err = l.Charge(f.Context(), 1)
	require.ErrorAs(f, err, &state, text)
	_, err = l.Peek(f.Context())
	require.ErrorAs(f, err, &state, text)
	assert.Equal(f, before, f.redis.Dump(), text)
	require.NoError(f, l.Reset(f.Context()))
	require.Empty(f, f.redis.Keys())
}

// TestPolicies_ForeignState_IsAStateError: the texts have the wrong words, or numbers that are
// impossible in the state.
func TestPolicies_ForeignState_IsAStateError(t *testing.T) {
	t.Parallel()
	f := newClocked(t)
	long := strings.Repeat("9", 400)
	cell := fmt.Sprint(f.now / 1e5)
	bucket := []string{
		"x", "a 1 2 3", "a -1 2 3 1", "a 1 2 3 1 ", "a 1 2 3 x", "a 1 2 3 1 x", "a 1 2 3 1 4 5 6 7", "a 1 2.5 3 1",
		"a 0x10 2 3 1", "a 1 2 3 1\n", "a nan 2 3 1", "a 1 inf 3 1", "0123", "1 2 3 1", "a 1 2 3 -1", "a 1 2 3 1.5",
		"a " + long + " 2 3 1", "a 1 " + long + " 3 1", "a 1 2 " + long + " 1", "a 1 2 3 " + long,
		"a 1 2 3 1 " + long, "a 1 2 3 1 4 " + long, "a 1 2 3 1 4 5 " + long,
		long, "a 1 99999999999999999 3 1", "a 1 2 99999999999999999 1", "a 9999999999999999999 2 3 1",
	}
	windows := []string{"", "x", "1 2", "a 1 2", "-1", "+1", "1.5", "1.0", "1e3", "0x10", " 1",
		"1 ", "01", "00", "nan", "inf",
		"99999999999999999", long}
	for _, test := range []struct {
		policy Policy
		texts  []string
	}{
		{FixedWindow{5, time.Second, false}, windows},
		{FixedWindow{5, time.Second, true}, windows},
		{Calendar{5, Day, nil}, windows},
		{SlidingWindow{5, time.Second, 10}, []string{
			"x", "1 2 3", "a -1 2 3", "a 1 2.5 3", "a 1 99999999999999999999 4", "a " + long + " 2 3", "a 1 2 " + long,
			"a 1 " + cell + " 3 4", "a 1 " + cell + " 3 4:", "a 1 " + cell + " 3 ", // expired cells are not read
			"a 5 " + cell + " 1 4", "a 5 " + cell + " 1 " + fmt.Sprint(f.now/1e5-12) + ":1:1",
		}},
		{TokenBucket{5, 1, time.Second}, bucket},
		{LeakyBucket{5, 1, time.Second}, bucket},
		{Smooth{Permits: 1, Interval: time.Second}, []string{
			"x", "a", "a 1", "a 1 2", "a 1 2 3", "a 1 2 3 4 5 6", "a 1 2 3 -4", "a 1 2 3 x", "a 1 2 99999999999999999 5",
			"a 1 99999999999999999 4 5", "a 1 2 x 5", "a 1 -2 3 5", "a 1 2 -3 5", "a -1 2 3 5", "a 1.2.3 4 5 5", "a 1e 2 3 5",
			"a nan 2 3 5", "a inf 2 3 5", "a 1 2 3 5 ", " a 1 2 3 5", "a 1 2.5 3 5", "1 2 3 5",
		}},
	} {
		key := New(f.client, "name", test.policy).protocol.keys[0]
		for _, text := range test.texts {
			require.NoError(t, f.redis.Set(key, text))
			f.foreign(test.policy, text)
		}
		f.redis.HSet(key, "field", "value")
		f.foreign(test.policy, "hash")
	}
}

// TestSlidingLog_ForeignState_IsAStateError: an entry that a call reads is not the log's.
func TestSlidingLog_ForeignState_IsAStateError(t *testing.T) {
	f := newClocked(t)
	policy := SlidingLog{5, time.Second}
	const key = "{name}:log:1000"
	now := f.now / 1000
	for _, entry := range []string{"", "x", "a 1 2 3", "a 1 2 3 4 5", "a -1 2 3 4", "a 1 2.5 3 4", "a 1 2 3 4 ",
		"a 99999999999999999999 0 3 4", "a 1 99999999999999999999 3 4",
		"a " + strings.Repeat("9", 400) + " 2 3 4", "a 1 2 3 " + strings.Repeat("9", 400), "a 1 0 99999999999999999 3"} {
		f.redis.Push(key, entry)
		f.foreign(policy, entry)
	}
	for _, entry := range []string{"", "x", "a 1", "1 2 3", "a -1 0 2 3", "a 1 0 2 3 "} {
		newest := fmt.Sprintf("a %d 0 1 50", now)
		f.redis.Push(key, entry, newest)
		f.foreign(policy, entry)
		f.redis.Push(key, slices.Concat(slices.Repeat([]string{"a 1 0 1 1"}, 7), []string{entry, newest})...)
		f.foreign(policy, entry)
	}
	require.NoError(t, f.redis.Set(key, "x"))
	f.foreign(policy, "string")
	f.redis.FlushAll()
	f.redis.Push(key, fmt.Sprintf("a %d 0 1 1", now))
	l := New(f.client, "name", policy)
	taken := withReceipt(t, l, "TryAcquire", 1)
	f.redis.Push(key, fmt.Sprintf("a %d 0 1 1", now), "x", fmt.Sprintf("a %d 0 1 3", now))
	for reader, read := range map[string]func() error{
		"release": func() error { return l.Release(t.Context(), 1) },
		"refund":  func() error { return taken.Refund(t.Context(), 1) },
	} {
		var state *rratelimiter.StateError
		require.ErrorAs(t, read(), &state, "only a %s reads this entry", reader)
		assert.Equal(t, rratelimiter.StateError{Key: key, Value: "x"}, *state)
	}
}

// FuzzState: for any text of a key, a call returns a possible Decision or a *StateError. No call
// makes a valid text invalid.
func FuzzState(f *testing.F) {
	policies := slices.Concat(everyPolicy, []Policy{Smooth{Permits: 10, Interval: time.Second, WarmUp: time.Second}})
	for _, text := range []string{
		"", "x", "3", "0", "7", "9007199254740991", "9999999999999999", "-1", "1e3",
		"a 1763740123456789 3 500000 1", "a 1763740123456789 3 500000 0 4",
		"a 5 4899278 2", "a 5 4899278 2 4899277:3", "a 1763740123456 0 2 2", "a 1763740123456 9 2 9007199254740991",
		"a 0.5 1763740123456789 0 10:100000", "a 1.5e+01 1763740123456789 6000000 0",
		"a 10 9007199254740993 9007199254740993 1",
		"a 9007199254740993 9007199254740993 9007199254740993 1", "a 1e400 1", "a 99999999999999999999 99999999999999999999",
	} {
		for kind := range policies {
			f.Add(uint8(kind), text, "a 1763740123450 0 2 2")
		}
	}
	redis := newClocked(f)
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, kind uint8, text, other string) {
		p := policies[int(kind)%len(policies)]
		l := New(redis.client, "name", p)
		redis.redis.FlushAll()
		if _, isLog := p.(SlidingLog); isLog {
			redis.redis.Push(l.protocol.keys[0], other, text)
		} else {
			require.NoError(t, redis.redis.Set(l.protocol.keys[0], text))
		}
		valid := false
		check := func(err error, all ...rratelimiter.Decision) {
			t.Helper()
			var state *rratelimiter.StateError
			if errors.As(err, &state) {
				require.False(t, valid, "%T after %q, %q: %v", p, text, other, err)
				return
			}
			valid = true
			require.NoError(t, err, "%T after %q, %q", p, text, other)
			for _, d := range all {
				possible := d.Remaining >= 0 && d.RetryAfter >= 0 && d.ResetAfter >= 0
				require.True(t, possible, "%T after %q, %q: %+v", p, text, other, d)
			}
		}
		for range 2 {
			d, err := l.Take(ctx, 2)
			check(err, d)
			if _, held := p.(InFlight); !held {
				d, err = l.Charge(ctx, 3)
				check(err, d)
				check(l.Release(ctx, 1))
			}
			all, err := l.Peek(ctx)
			check(err, all...)
		}
	})
}
