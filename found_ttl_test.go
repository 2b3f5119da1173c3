package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
