package limit

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

var twoPolicies = []Policy{FixedWindow{5, time.Minute, false}, TokenBucket{20, 20, time.Hour}}

func TestKeyed_KeyWithoutBraces_IsTheLimiterOfThatName(t *testing.T) {
	f := newClocked(t)
	for _, prefix := range []string{"login", "{login}", "a:b", "100%"} {
		k := NewKeyed(f.client, prefix, twoPolicies...)
		for _, key := range []string{"alice", "192.0.2.1", "a:b", "%7B", "100%", " ", "\xff\x00", strings.Repeat("x", 300)} {
			of, want := k.Limiter(key), New(f.client, prefix+":"+key, twoPolicies...)
			require.NoError(t, of.err)
			assert.Equal(t, want.wire.keys, of.wire.keys)
			assert.Equal(t, want.calls.ID, of.calls.ID)
			assert.Equal(t, want.calls.DependsOn, of.calls.DependsOn)
			assert.Equal(t, want.Name(), of.Name())
		}
	}
	k := NewKeyed(f.client, "login", twoPolicies[0])
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { k.Limiter("alice") }), 2.0, "the Limiter, and its ID and key")
	mapped := newClocked(t, rratelimiter.WithNameMapper(func(name string) string { return "app:" + name })).client
	of, want := NewKeyed(mapped, "login", twoPolicies...).Limiter("alice"), New(mapped, "login:alice", twoPolicies...)
	assert.Equal(t, want.wire.keys, of.wire.keys)
	assert.Equal(t, want.Name(), of.Name())
}

// TestKeyed_InvalidClient_HasItsError: with a prefix whose names need no escape, too.
func TestKeyed_InvalidClient_HasItsError(t *testing.T) {
	for _, option := range []rratelimiter.Option{rratelimiter.WithLease(-time.Second), rratelimiter.WithDenialCache(-1)} {
		f := newClocked(t, option)
		for _, prefix := range []string{"login", "{login}"} {
			_, err := NewKeyed(f.client, prefix, twoPolicies...).TryAcquire(t.Context(), "alice", 1)
			assert.ErrorIs(t, err, rratelimiter.ErrInvalidOption, prefix)
		}
	}
}

// TestKeyed_Calls_AreThoseOfTheLimiter: each of them acts on the key that it is given.
func TestKeyed_Calls_AreThoseOfTheLimiter(t *testing.T) {
	f := newClocked(t)
	ctx := t.Context()
	k := NewKeyed(f.client, "login", FixedWindow{5, time.Minute, false})
	granted := func(ok bool, err error) error {
		assert.True(t, ok)
		return err
	}
	left := int64(5)
	for _, step := range []struct {
		takes int64
		call  func() error
	}{
		{1, func() error { return granted(k.TryAcquire(ctx, "alice", 1)) }},
		{1, func() error { return redistest.Err(k.Take(ctx, "alice", 1)) }},
		{1, func() error { return k.Acquire(ctx, "alice", 1) }},
		{-3, func() error { return k.Limiter("alice").Reset(ctx) }},
	} {
		require.NoError(t, step.call())
		left -= step.takes
		for key, want := range map[string]int64{"alice": left, "bob": 5} {
			assert.Equal(t, want, peekAll(t, k.Limiter(key))[0].Remaining, key)
		}
	}
}

func TestKeyed_BracesInAKey_ChooseNoSlot(t *testing.T) {
	f := newClocked(t)
	of := func(prefix, key string) uint16 {
		return redisx.Slot(NewKeyed(f.client, prefix, twoPolicies[0]).Limiter(key).wire.keys[0])
	}
	assert.NotEqual(t, redisx.Slot("x"), of("login", "{x}"))
	assert.NotEqual(t, of("login", "x}1"), of("login", "x}2"))
	assert.NotEqual(t, of("login", "x}1"), of("login", "x"))
	for _, key := range []string{"{x}", "}", "{", "}{", "x}{y}"} {
		assert.Equal(t, redisx.Slot("web"), of("{web}", key), key)
		l := NewKeyed(f.client, "login", twoPolicies...).Limiter(key)
		assert.Equal(t, redisx.Slot(l.wire.keys[0]), redisx.Slot(l.wire.keys[1]), key)
		assert.Equal(t, "login:"+key, l.Name())
	}
}

// FuzzKeyed_Keys_ShareNoState: two keys of a prefix have no Redis key in common, nor has a key with
// one of the names that New could open.
func FuzzKeyed_Keys_ShareNoState(f *testing.F) {
	for _, keys := range [][2]string{{"{", "%7B"}, {"}", "%7D"}, {"%{", "%25%7B"}, {"{}", "%7B%7D"}, {"{%", "%7B%"},
		{"a{", "a%7B%"}, {"{x}:", "%7Bx%7D:"}} {
		for _, prefix := range []string{"login", "{web}", "{web}:", "a{"} {
			f.Add(prefix, keys[0], keys[1])
		}
	}
	redis := newClocked(f)
	f.Fuzz(func(t *testing.T, prefix, one, other string) {
		if prefix == "" || one == "" || other == "" || one == other {
			return
		}
		k := NewKeyed(redis.client, prefix, twoPolicies...)
		for _, key := range k.Limiter(one).wire.keys {
			assert.NotContains(t, k.Limiter(other).wire.keys, key)
			if strings.ContainsAny(one, "{}") {
				assert.False(t, slices.Contains(New(redis.client, other, twoPolicies...).wire.keys, key))
			}
		}
	})
}

func TestKeyed_InvalidArguments_FailWithTypedErrors(t *testing.T) {
	f := newClocked(t)
	for name, test := range map[string]struct {
		keyed *Keyed
		key   string
		want  error
	}{
		"no client":        {NewKeyed(nil, "login", twoPolicies...), "alice", rratelimiter.ErrNoClient},
		"zero":             {new(Keyed), "alice", rratelimiter.ErrNoClient},
		"no prefix":        {NewKeyed(f.client, "", twoPolicies...), "alice", rratelimiter.ErrInvalidName},
		"no key":           {NewKeyed(f.client, "login", twoPolicies...), "", rratelimiter.ErrInvalidName},
		"no policy":        {NewKeyed(f.client, "login"), "alice", rratelimiter.ErrInvalidRate},
		"an invalid field": {NewKeyed(f.client, "login", FixedWindow{}), "alice", rratelimiter.ErrInvalidRate},
		"a pointer": {NewKeyed(f.client, "login", &FixedWindow{5, time.Minute, false}), "alice",
			rratelimiter.ErrInvalidRate},
	} {
		_, err := test.keyed.Take(t.Context(), test.key, 1)
		assert.ErrorIs(t, err, test.want, name)
		_, err = Join(test.keyed.Limiter(test.key)).Take(t.Context(), 1)
		assert.ErrorIs(t, err, test.want, name)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewKeyed(f.client, "login", twoPolicies...).Take(ended, "alice", 1)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestValidate_Policies_FailAsNewDoes(t *testing.T) {
	f := newClocked(t)
	many := make([]Policy, policy.MaxJoined+1)
	for i := range many {
		many[i] = FixedWindow{1, time.Duration(i+1) * time.Second, false}
	}
	for name, policies := range map[string][]Policy{
		"none": nil, "nil": {nil}, "invalid": {FixedWindow{0, time.Second, false}},
		"one key":  {FixedWindow{1, time.Second, false}, FixedWindow{2, time.Second, false}},
		"too many": many,
	} {
		err := Validate(policies...)
		require.ErrorIs(t, err, rratelimiter.ErrInvalidRate, name)
		_, of := New(f.client, "name", policies...).Take(t.Context(), 1)
		assert.Equal(t, err.Error(), of.Error(), name)
	}
	assert.NoError(t, Validate(many[:policy.MaxJoined]...))
}
