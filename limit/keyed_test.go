package limit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
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
			assert.Equal(t, want.protocol.keys, of.protocol.keys)
			assert.Equal(t, want.calls.ID, of.calls.ID)
			assert.Equal(t, want.calls.DependsOn, of.calls.DependsOn)
			assert.Equal(t, want.Name(), of.Name())
		}
	}
	k := NewKeyed(f.client, "login", twoPolicies[0])
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { k.Limiter("alice") }), 2.0, "the Limiter, and its ID and key")
	mapped := newClocked(t, rratelimiter.WithNameMapper(func(name string) string { return "app:" + name })).client
	of, want := NewKeyed(mapped, "login", twoPolicies...).Limiter("alice"), New(mapped, "login:alice", twoPolicies...)
	assert.Equal(t, want.protocol.keys, of.protocol.keys)
	assert.Equal(t, want.Name(), of.Name())
}

// TestKeyed_Calls_AreThoseOfTheLimiter: each of them acts on the key that it is given.
func TestKeyed_Calls_AreThoseOfTheLimiter(t *testing.T) {
	f := newClocked(t)
	k := NewKeyed(f.client, "login", FixedWindow{5, time.Minute, false})
	ok, err := k.TryAcquire(t.Context(), "alice", 1)
	require.NoError(t, err)
	assert.True(t, ok)
	d, err := k.Take(t.Context(), "alice", 1)
	require.NoError(t, err)
	assert.EqualValues(t, 3, d.Remaining)
	require.NoError(t, k.Acquire(t.Context(), "alice", 1))
	d, err = k.TakeWithin(t.Context(), "alice", 3, time.Second)
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	assert.EqualValues(t, 2, d.Remaining)
	assert.EqualValues(t, 2, redistest.Peek(t, k.Limiter("alice"))[0].Remaining)
	assert.EqualValues(t, 5, redistest.Peek(t, k.Limiter("bob"))[0].Remaining)
}

func TestKeyed_BracesInAKey_ChooseNoSlot(t *testing.T) {
	f := newClocked(t)
	of := func(prefix, key string) uint16 {
		return redisx.Slot(NewKeyed(f.client, prefix, twoPolicies[0]).Limiter(key).protocol.keys[0])
	}
	assert.NotEqual(t, redisx.Slot("x"), of("login", "{x}"))
	assert.NotEqual(t, of("login", "x}1"), of("login", "x}2"))
	assert.NotEqual(t, of("login", "x}1"), of("login", "x"))
	for _, key := range []string{"{x}", "}", "{", "}{", "x}{y}"} {
		assert.Equal(t, redisx.Slot("web"), of("{web}", key), key)
		l := NewKeyed(f.client, "login", twoPolicies...).Limiter(key)
		assert.Equal(t, redisx.Slot(l.protocol.keys[0]), redisx.Slot(l.protocol.keys[1]), key)
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
		for _, key := range k.Limiter(one).protocol.keys {
			assert.NotContains(t, k.Limiter(other).protocol.keys, key)
			if strings.ContainsAny(one, "{}") {
				assert.False(t, slices.Contains(New(redis.client, other, twoPolicies...).protocol.keys, key))
			}
		}
	})
}

func TestKeyed_InvalidArguments_FailWithTypedErrors(t *testing.T) {
	f := newClocked(t)
	invalid := newClocked(t, rratelimiter.WithPrefetch(-time.Second)).client
	for name, test := range map[string]struct {
		keyed *Keyed
		key   string
		want  error
	}{
		"no client":              {NewKeyed(nil, "login", twoPolicies...), "alice", rratelimiter.ErrNoClient},
		"zero":                   {new(Keyed), "alice", rratelimiter.ErrNoClient},
		"a client's option":      {NewKeyed(invalid, "login", twoPolicies...), "alice", rratelimiter.ErrInvalidOption},
		"the same, with a brace": {NewKeyed(invalid, "{login}", twoPolicies...), "alice", rratelimiter.ErrInvalidOption},
		"no prefix":              {NewKeyed(f.client, "", twoPolicies...), "alice", rratelimiter.ErrInvalidName},
		"no key":                 {NewKeyed(f.client, "login", twoPolicies...), "", rratelimiter.ErrInvalidName},
		"no policy":              {NewKeyed(f.client, "login"), "alice", rratelimiter.ErrInvalidRate},
	} {
		assert.ErrorIs(t, redistest.Err(test.keyed.Take(t.Context(), test.key, 1)), test.want, name)
		assert.ErrorIs(t, redistest.Err(Join(test.keyed.Limiter(test.key)).Take(t.Context(), 1)), test.want, name)
	}
}

// TestKeyed_ManyCallers_EachKeyHasItsOwnCount: a Limiter that served another key before counts the key that it is
// given, beside callers that may leave and those that share a call.
func TestKeyed_ManyCallers_EachKeyHasItsOwnCount(t *testing.T) {
	t.Parallel()
	const keys, callers, calls = 5, 16, 30
	f, window := newClocked(t), FixedWindow{1 << 20, time.Hour, false}
	for _, of := range [][]Policy{{window}, {window, TokenBucket{1 << 20, 1, time.Hour}}} {
		k := NewKeyed(f.client, fmt.Sprint("policies ", len(of)), of...)
		var taken [keys]atomic.Int64
		var done sync.WaitGroup
		for caller := range callers {
			done.Go(func() {
				mayLeave, cancel := context.WithCancel(t.Context())
				defer cancel()
				for call := range calls {
					ctx, key := context.Background(), (caller+call)%keys
					if call%3 == 0 {
						ctx = mayLeave
					}
					granted, err := k.TryAcquire(ctx, strconv.Itoa(key), int64(key+1))
					assert.NoError(t, err)
					assert.True(t, granted)
					taken[key].Add(int64(key + 1))
					d, err := k.Take(ctx, "caller "+strconv.Itoa(caller), 1)
					assert.NoError(t, err)
					assert.EqualValues(t, 1<<20-1-call, d.Remaining)
				}
			})
		}
		done.Wait()
		for key := range taken {
			assert.Equal(t, 1<<20-taken[key].Load(), redistest.Peek(t, k.Limiter(strconv.Itoa(key)))[0].Remaining)
		}
	}
}

// TestKeyed_LimiterInUse_ServesNoOtherKey: only a lone call without an error, of a caller that cannot leave and
// without hooks, gives its Limiter back.
func TestKeyed_LimiterInUse_ServesNoOtherKey(t *testing.T) {
	mayLeave, cancel := context.WithCancel(t.Context())
	defer cancel()
	window := FixedWindow{5, time.Minute, false}
	for name, test := range map[string]struct {
		ctx     context.Context
		options []rratelimiter.Option
		foreign bool
		unused  bool
	}{
		"lone":        {ctx: context.Background(), unused: true},
		"may leave":   {ctx: mayLeave},
		"hooked":      {ctx: context.Background(), options: []rratelimiter.Option{rratelimiter.WithDenialCache(time.Minute)}},
		"with an err": {ctx: context.Background(), foreign: true},
	} {
		f := newClocked(t, test.options...)
		k := NewKeyed(f.client, "login", window)
		if test.foreign {
			require.NoError(t, f.redis.Set(k.Limiter("alice").protocol.keys[0], "foreign"))
		}
		unused := false
		for range 50 { // with the race detector, a Pool drops some
			_, err := k.TryAcquire(test.ctx, "alice", 1)
			assert.Equal(t, test.foreign, err != nil, name)
			unused = unused || k.unused.Get() != nil
		}
		assert.Equal(t, test.unused, unused, name)
	}
}
