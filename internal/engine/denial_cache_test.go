package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestWithDenialCache_SeveralDenied_SmallestIsStored(t *testing.T) {
	for name, wants := range map[string][]int64{"first": {4, 5, 6}, "in the middle": {6, 4, 5}, "last": {6, 5, 4}} {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithDenialCache(time.Hour))
			b.Take(l, 7)
			b.Latency.Store(int64(10 * time.Millisecond))
			redistest.Crowd(2+len(wants), func(i int) (rratelimiter.Decision, error) {
				if i < 2 { // their calls are in flight while the others arrive
					return l.Take(b.Context(), 11)
				}
				return l.Take(b.Context(), wants[i-2])
			})
			pass(second)
			for _, permits := range wants {
				_, denied := b.remembered(l, permits)
				assert.True(b, denied, permits)
			}
			_, denied := b.remembered(l, 3)
			assert.False(b, denied)
		})
	}
}
