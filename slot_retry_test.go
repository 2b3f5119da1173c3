package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestADenialCountsFromTheCallThatWasAnswered, not from one before it that a moving slot refused.
func TestADenialCountsFromTheCallThatWasAnswered(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache(time.Hour))
		start := time.Now()
		b.Take(l, 10)
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		b.Full(l, 1)
		pass(second)
		d, denied := b.remembered(l, 1)
		assert.True(b, denied)
		assert.Equal(b, time.Hour-time.Since(start), d.RetryAfter)
	})
}

// TestASlotThatMovesIsWaitedForAQuarterOfASecond, and no longer.
func TestASlotThatMovesIsWaitedForAQuarterOfASecond(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		for _, call := range []string{"TryAcquire", "Release"} {
			start := time.Now()
			assert.ErrorContains(b, everyCall(l)[call](b.Context()), "TRYAGAIN")
			assert.Equal(b, 255*time.Millisecond, time.Since(start), call)
		}
		b.Redis.SetError("")
	})
}
