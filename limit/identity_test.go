package limit

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestID_SimilarNames_AreDistinct: calls of one ID share their answers. Names are made to look like
// two names.
func TestID_SimilarNames_AreDistinct(t *testing.T) {
	// A name mapper may return names that differ from their keys.
	mapped := map[string]string{"a": "{k}", "b": "{k}2", "a\n4 {k}2 the rate of b": "{k}"}
	f := newClocked(t, rratelimiter.WithNameMapper(func(name string) string { return cmp.Or(mapped[name], name) }))
	p := TokenBucket{5, 1, time.Hour}
	one := New(f.client, "{a}", p)
	for _, pair := range [][2]string{
		{Join(one, New(f.client, "{a}b", p)).calls.ID,
			New(f.client, one.protocol.keys[0]+" "+one.protocol.members[0].fingerprint+"\n{a}b", p).calls.ID},
		{Join(f.client.Limiter("a"), f.client.Limiter("b")).calls.ID,
			Join(f.client.Limiter("a\n4 {k}2 the rate of b")).calls.ID},
	} {
		require.NotEmpty(t, pair[0])
		require.NotEmpty(t, pair[1])
		assert.NotEqual(t, pair[0], pair[1])
	}
}

// TestID_RedissonLimiterNamedLikeAnother_NotServedFromItsPrefetch: the name of a limiter is any text.
func TestID_RedissonLimiterNamedLikeAnother_NotServedFromItsPrefetch(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client := rratelimiter.New(f.Conn, rratelimiter.WithPrefetch(100*time.Millisecond))
		l := New(client, "name", FixedWindow{100_000, time.Hour, false})
		redistest.Peek(t, l)
		for _, name := range []string{l.calls.ID, strings.TrimPrefix(l.calls.ID, "policies ")} {
			like := client.Limiter(name)
			require.NoError(t, like.SetRate(t.Context(), rratelimiter.Rate{Permits: 3, Interval: time.Hour}))
			f.Latency.Store(int64(500 * time.Microsecond))
			f.CountGranted(l, 500, 20*time.Microsecond) // and permits are prefetched
			f.Latency.Store(0)
			granted := 0
			for range 50 {
				if redistest.Result(t, like.TryAcquire, 1) {
					granted++
				}
			}
			assert.Equal(t, 3, granted, "%q", name)
		}
		require.NoError(t, client.Flush(t.Context()))
	})
}

// TestID_NameOfALocation_DecidesWhatCallsShare: nil is UTC.
func TestID_NameOfALocation_DecidesWhatCallsShare(t *testing.T) {
	f := newClocked(t)
	want := New(f.client, "name", Calendar{3, Day, nil}).calls.ID
	assert.Equal(t, want, New(f.client, "name", Calendar{3, Day, time.FixedZone("UTC", 3600)}).calls.ID)
}

// TestKeys_DifferentNames_AreDistinct: no two names share a key, and all keys of a name are in its
// cluster slot.
func TestKeys_DifferentNames_AreDistinct(t *testing.T) {
	f := newClocked(t)
	names := []string{"bob", "{bob}", "{bob}:", ":{bob}", "{bob}::", "{bob}:day:UTC", "{bob}::day:UTC", "a{bob}", "bob}",
		"bob:", ":bob", "{bob", "{}", "{}bob", "bob:day:UTC", "{bob}:day"}
	var policies []Policy
	for _, in := range []string{"UTC", "UTC:day:UTC", "%3A", ":", "UTC+03:00", "day:UTC"} {
		policies = append(policies, Calendar{1, Day, time.FixedZone(in, 0)})
	}
	policies = append(policies, FixedWindow{1, time.Second, false}, SlidingWindow{1, time.Second, 10},
		TokenBucket{1, 1, time.Second})
	seen := make(map[string]string)
	for _, name := range names {
		for _, p := range policies {
			l := New(f.client, name, p)
			require.NoError(t, l.err)
			key := l.protocol.keys[0]
			assert.Empty(t, seen[key], "%q and %q share %q", name, seen[key], key)
			seen[key] = name
			if strings.Contains(name, "{bob}") || name == "bob" {
				assert.Equal(t, redisx.Slot("{bob}"), redisx.Slot(key), "%q", key)
			}
		}
	}
}
