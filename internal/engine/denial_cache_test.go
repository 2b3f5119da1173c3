package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
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

func TestWithDenialCache_ClientChangesTheLimiter_DenialIsForgotten(t *testing.T) {
	for name, change := range map[string]func(b *fixture, l *rratelimiter.Limiter) error{
		"Release": func(b *fixture, l *rratelimiter.Limiter) error { return l.Release(b.Context(), 3) },
		"SetRate": func(b *fixture, l *rratelimiter.Limiter) error {
			return l.SetRate(b.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour})
		},
		"UpdateRate": func(b *fixture, l *rratelimiter.Limiter) error {
			_, err := l.UpdateRate(b.Context(), rratelimiter.Rate{Permits: 20, Interval: time.Hour}, rratelimiter.KeepState())
			return err
		},
		"Copy": func(b *fixture, l *rratelimiter.Limiter) error {
			other := b.client.Limiter("other")
			if err := other.SetRate(b.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}); err != nil {
				return err
			}
			_, err := other.Copy(b.Context(), "limiter", rratelimiter.Replace())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
				l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithDenialCache(time.Hour))
				b.Take(l, 10)
				b.Full(l, 1)
				synctest.Wait()
				require.NoError(b, change(b, l))
				b.Take(l, 3)
			})
		})
	}
	t.Run("Delete", func(t *testing.T) {
		withRedis(t, func(b *fixture) {
			l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithDenialCache(time.Hour))
			b.Take(l, 10)
			b.Full(l, 1)
			synctest.Wait()
			_, err := l.Delete(b.Context())
			require.NoError(b, err)
			_, err = l.TryAcquire(b.Context(), 1)
			assert.ErrorIs(b, err, rratelimiter.ErrNotInitialized)
		})
	})
}

// changed notifies the engine of a change of the limiter, without a call to Redis.
func (b *fixture) changed() {
	opened, err := inside.Open(b.client)
	require.NoError(b, err)
	nothing := func(context.Context) (any, error) { return nil, nil }
	_, _ = engine.Change(b.Context(), opened.Engine, []string{"limiter"}, nothing)
}

// TestWithDenialCache_ChangeDuringTheCall_DenialIsNotStored: the version from before the call
// counts.
func TestWithDenialCache_ChangeDuringTheCall_DenialIsNotStored(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithDenialCache(time.Hour))
		b.Take(l, 10)
		b.Latency.Store(int64(100 * time.Millisecond))
		time.AfterFunc(50*time.Millisecond, func() { b.changed() })
		b.Full(l, 1)
		pass(10 * second)
		_, denied := b.remembered(l, 1)
		assert.False(b, denied)
		b.Latency.Store(0)
		b.Full(l, 1)
		pass(second)
		_, denied = b.remembered(l, 1)
		assert.True(b, denied)
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
					if i < 2 { // their calls are in flight while the others gather
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
