package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestWithDenialCache_Denial_IsAnsweredFromMemory: until permits return.
func TestWithDenialCache_Denial_IsAnsweredFromMemory(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx := b.Context()
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: 10 * second}, rratelimiter.WithDenialCache(time.Hour))
		b.Take(l, 4)
		pass(second)
		b.Take(l, 5)
		b.Full(l, 3)
		synctest.Wait() // the denial is remembered once its caller has the answer

		asked := b.Scripts.Load()
		for range 100 {
			b.Full(l, 3)
			b.Full(l, 10)
		}
		pass(2 * second)
		d, err := l.Take(ctx, 4)
		require.NoError(b, err)
		assert.Equal(b, rratelimiter.Decision{Limit: 10, Remaining: 1, RetryAfter: 7 * second, ResetAfter: 8 * second}, d)
		assert.Equal(b, asked, b.Scripts.Load(), "calls of Redis")

		b.Take(l, 1) // fewer than were denied: Redis decides, as it does on more than the rate
		_, err = l.TryAcquire(ctx, 11)
		require.ErrorIs(b, err, rratelimiter.ErrPermitsExceedRate)
		pass(7 * second)
		b.Take(l, 4)
	})
}

func TestWithDenialCache_SeveralDenied_SmallestIsStored(t *testing.T) {
	for name, wants := range map[string][]int64{"first": {4, 5, 6}, "in the middle": {6, 4, 5}, "last": {6, 5, 4}} {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
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
		})
	}
}
