package limit

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLooksAreWhatIsTold: a denial from memory looks at what the scripts tell that the key holds, and that changes with it.
func TestLooksAreWhatIsTold(t *testing.T) {
	b := newBench(t)
	for _, policy := range []Policy{
		SlidingLog{5, time.Second}, SlidingWindow{5, time.Second, 0}, Calendar{5, Day, nil}, FixedWindow{5, time.Second, false},
		TokenBucket{5, 5, time.Second}, LeakyBucket{5, 5, time.Second}, Smooth{Permits: 5, Interval: time.Second},
	} {
		l := New(b.client, "name", policy)
		redis := l.client.Engine.Redis()
		told := ""
		for range 2 {
			_, err := l.Take(t.Context(), 1)
			require.NoError(t, err)
			message, err := l.eval(t.Context(), peek, l.members)
			require.NoError(t, err)
			seen, _, err := l.read(peek, l.members, message)
			require.NoError(t, err)
			assert.NotEqual(t, told, seen.texts[0])
			told = seen.texts[0]
			look := policy.keeps().looks(redis.B(), l.keys, time.Second)[0]
			text, err := redis.Do(t.Context(), rueidis.Completed(look.Cmd)).ToString()
			require.NoError(t, err)
			assert.Equal(t, text, told)
			got, err := redis.Do(t.Context(), redis.B().Type().Key(l.keys[0]).Build()).ToString()
			require.NoError(t, err)
			assert.Equal(t, policy.keeps().types[0], got)
		}
	}
}

// TestMostPolicies: a script has room for as many as there may be.
func TestMostPolicies(t *testing.T) {
	b := newBench(t)
	for _, kind := range []func(time.Duration) Policy{
		func(d time.Duration) Policy { return SlidingLog{5, d} },
		func(d time.Duration) Policy { return SlidingWindow{5, d, 0} },
		func(d time.Duration) Policy { return Calendar{5, Day, time.FixedZone(d.String(), 0)} },
	} {
		var all []Policy
		for i := range mostPolicies {
			all = append(all, kind(time.Duration(i+1)*time.Second))
		}
		l := New(b.client, "name", all...)
		_, err := l.Charge(t.Context(), 1)
		require.NoError(t, err)
		each, err := l.TakeEach(t.Context(), 1)
		require.NoError(t, err)
		for _, d := range each {
			assert.EqualValues(t, 3, d.Remaining)
		}
		require.NoError(t, l.Release(t.Context(), 2))
		assert.Empty(t, b.redis.Keys())
	}
}
