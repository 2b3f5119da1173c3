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
			"a grant":  func() { b.take(l, 1) },
			"a denial": func() { b.full(l, 10) },
		} {
			b.take(l, 1)
			b.redis.SetTTL(value, time.Minute)
			b.redis.SetTTL(permits, time.Minute)
			call()
			assert.Zero(b, b.redis.TTL(value), name)
			assert.Zero(b, b.redis.TTL(permits), name)
		}
		// The value alone is left.
		b.redis.Del(permits)
		b.redis.SetTTL(value, time.Minute)
		b.take(l, 10)
		assert.Zero(b, b.redis.TTL(value))
		assert.Zero(b, b.redis.TTL(permits))
	})
}

// TestAValueThatDiesBeforeItsSet, since Redisson left it with a life of its own, grants nothing: the set is what counts.
func TestAValueThatDiesBeforeItsSet(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		b.take(l, 4)
		b.redis.SetTTL("{limiter}:value", time.Minute)
		b.take(l, 3)
		pass(2 * time.Minute)
		b.full(l, 4)
		b.take(l, 3)
		b.full(l, 1)
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
				"a grant":  func() { b.take(l, 1) },
				"a denial": func() { b.full(l, 10) },
			} {
				b.take(l, 1)
				b.redis.SetTTL("limiter", time.Hour)
				call()
				for _, key := range l.wire.keys {
					if key != "limiter" && b.redis.Exists(key) {
						assert.Equal(b, life, b.redis.TTL(key), "%v, %s: %s", kind, name, key)
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
		b.take(l, 1)
		b.redis.SetTTL("limiter", 900*time.Millisecond)
		calls := b.scripts.Load()
		const asked = 100
		for range asked {
			b.take(l, 1)
		}
		assert.EqualValues(b, asked, b.scripts.Load()-calls, "calls: each asks Redis")
		require.NoError(b, b.conn.Do(b.Context(), b.conn.B().Persist().Key("limiter").Build()).Error())
		for range asked {
			b.take(l, 1)
		}
		assert.Less(b, b.scripts.Load()-calls, int64(asked+asked/2), "leased by then")
	})
}
