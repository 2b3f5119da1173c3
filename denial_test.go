package rratelimiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDenialsAreAnsweredFromMemory until the moment that Redis named. That Redis tells of changes needs a real
// server: see integration/denials.
func TestDenialsAreAnsweredFromMemory(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second}, WithDenialCache(time.Hour))
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
		assert.Equal(b, Decision{Limit: 10, Remaining: 1, RetryAfter: 7 * second, ResetAfter: 8 * second}, d)
		assert.Equal(b, asked, b.Scripts.Load(), "calls of Redis")

		b.Take(l, 1) // fewer than were denied: Redis decides, as it does on more than the rate
		_, err = l.TryAcquire(ctx, 11)
		require.ErrorIs(b, err, ErrPermitsExceedRate)
		pass(7 * second)
		b.Take(l, 4)
	})
}

func TestWhatThisClientChangesIsForgotten(t *testing.T) {
	for name, change := range map[string]func(b *bubble, l *Limiter) error{
		"Release": func(b *bubble, l *Limiter) error { return l.Release(b.Context(), 3) },
		"SetRate": func(b *bubble, l *Limiter) error {
			return l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour})
		},
		"UpdateRate": func(b *bubble, l *Limiter) error {
			_, err := l.UpdateRate(b.Context(), Rate{Permits: 20, Interval: time.Hour}, KeepState())
			return err
		},
		"Copy": func(b *bubble, l *Limiter) error {
			other := l.wire.client.Limiter("other")
			if err := other.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}); err != nil {
				return err
			}
			_, err := other.Copy(b.Context(), "limiter", Replace())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache(time.Hour))
				b.Take(l, 10)
				b.Full(l, 1)
				synctest.Wait()
				require.NoError(b, change(b, l))
				b.Take(l, 3)
			})
		})
	}
	t.Run("Delete", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache(time.Hour))
			b.Take(l, 10)
			b.Full(l, 1)
			synctest.Wait()
			_, err := l.Delete(b.Context())
			require.NoError(b, err)
			_, err = l.TryAcquire(b.Context(), 1)
			assert.ErrorIs(b, err, ErrNotInitialized)
		})
	})
}
