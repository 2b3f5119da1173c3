package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Issue 9, point 17: where the configuration has no TTL, one that is found on the state goes with the next call, granted or
// denied, from the value too: Java reads a value that is gone as a whole rate.
func TestATimeToLiveThatIsFoundGoes(t *testing.T) {
	const value, permits = "{limiter}:value", "{limiter}:permits"
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		for name, call := range map[string]func(){
			"a grant":  func() { b.Take(l, 1) },
			"a denial": func() { b.Full(l, 10) },
		} {
			b.Take(l, 1)
			b.Redis.SetTTL(value, time.Minute)
			b.Redis.SetTTL(permits, time.Minute)
			call()
			assert.Zero(b, b.Redis.TTL(value), name)
			assert.Zero(b, b.Redis.TTL(permits), name)
		}
		// The value alone is left.
		b.Redis.Del(permits)
		b.Redis.SetTTL(value, time.Minute)
		b.Take(l, 10)
		assert.Zero(b, b.Redis.TTL(value))
		assert.Zero(b, b.Redis.TTL(permits))
	})
}

// TestAValueThatDiesBeforeItsSet, since Redisson left it with a life of its own, grants nothing: the set is what counts.
func TestAValueThatDiesBeforeItsSet(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		b.Take(l, 4)
		b.Redis.SetTTL("{limiter}:value", time.Minute)
		b.Take(l, 3)
		pass(2 * time.Minute)
		b.Full(l, 4)
		b.Take(l, 3)
		b.Full(l, 1)
	})
}

// TestATimeToLiveOfTheConfigurationAlone goes to the state with the next call, granted or denied. So it is where Redisson renames a
// limiter that expires to a name whose own state stayed behind.
func TestATimeToLiveOfTheConfigurationAlone(t *testing.T) {
	for kind, life := range map[RateType]time.Duration{
		Overall: time.Hour + time.Millisecond, PerClient: 25*time.Hour + time.Minute + time.Millisecond,
	} {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Type: kind, Permits: 10, Interval: time.Minute})
			for name, call := range map[string]func(){
				"a grant":  func() { b.Take(l, 1) },
				"a denial": func() { b.Full(l, 10) },
			} {
				b.Take(l, 1)
				b.Redis.SetTTL("limiter", time.Hour)
				call()
				for _, key := range l.wire.keys {
					if key != "limiter" && b.Redis.Exists(key) {
						assert.Equal(b, life, b.Redis.TTL(key), "%v, %s: %s", kind, name, key)
					}
				}
				require.NoError(b, l.SetRate(b.Context(), Rate{Type: kind, Permits: 10, Interval: time.Minute}))
				_, err := l.ClearExpire(b.Context())
				require.NoError(b, err)
			}
		})
	}
}

// TestNothingIsLeasedOfALimiterThatEnds, even where its configuration alone has a TTL.
func TestNothingIsLeasedOfALimiterThatEnds(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1_000_000, Interval: time.Hour}, WithLease(time.Second))
		b.Take(l, 1)
		b.Redis.SetTTL("limiter", 900*time.Millisecond)
		calls := b.Scripts.Load()
		const asked = 100
		for range asked {
			b.Take(l, 1)
		}
		assert.EqualValues(b, asked, b.Scripts.Load()-calls, "calls: each asks Redis")
		require.NoError(b, b.Conn.Do(b.Context(), b.Conn.B().Persist().Key("limiter").Build()).Error())
		for range asked {
			b.Take(l, 1)
		}
		assert.Less(b, b.Scripts.Load()-calls, int64(asked+asked/2), "leased by then")
	})
}
