package rratelimiter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// fromMemory takes a permit, and reports whether it was denied without a call to Redis.
func fromMemory(b *fixture, l *Limiter) bool {
	before := b.Scripts.Load()
	_, _ = l.Take(b.Context(), 1)
	return b.Scripts.Load() == before
}

// TestWithDenialCache_CallerOfTheChangeHasLeft_DenialIsForgotten: once the server has answered.
func TestWithDenialCache_CallerOfTheChangeHasLeft_DenialIsForgotten(t *testing.T) {
	hour := Rate{Permits: 10, Interval: time.Hour}
	for name, change := range map[string]func(context.Context, *Client, *Limiter) error{
		"Release": func(ctx context.Context, _ *Client, l *Limiter) error {
			return l.Release(ctx, 3)
		},
		"SetRate": func(ctx context.Context, _ *Client, l *Limiter) error {
			return l.SetRate(ctx, hour)
		},
		"UpdateRate": func(ctx context.Context, _ *Client, l *Limiter) error {
			return errOf(l.UpdateRate(ctx, hour))
		},
		"Delete": func(ctx context.Context, _ *Client, l *Limiter) error {
			return errOf(l.Delete(ctx))
		},
		"Expire": func(ctx context.Context, _ *Client, l *Limiter) error {
			return errOf(l.Expire(ctx, 0))
		},
		"ExpireAt": func(ctx context.Context, _ *Client, l *Limiter) error {
			return errOf(l.ExpireAt(ctx, time.Now().Add(-time.Second)))
		},
		"Rename": func(ctx context.Context, _ *Client, l *Limiter) error {
			return l.Rename(ctx, "elsewhere")
		},
		"Copy": func(ctx context.Context, c *Client, _ *Limiter) error {
			return errOf(c.Limiter("full").Copy(ctx, "limiter", Replace()))
		},
		"Rename onto": func(ctx context.Context, c *Client, _ *Limiter) error {
			return c.Limiter("full").Rename(ctx, "limiter")
		},
	} {
		for kind, timeout := range map[string]time.Duration{"": time.Hour, ", caller left": 50 * time.Millisecond} {
			runWithRedis(t, name+kind, func(b *fixture) {
				client := New(b.Conn, WithDenialCache(time.Hour))
				l := client.Limiter("limiter")
				require.NoError(b, l.SetRate(b.Context(), hour))
				require.NoError(b, client.Limiter("full").SetRate(b.Context(), hour))
				b.Take(l, 10)
				b.Full(l, 1)
				synctest.Wait()
				require.True(b, fromMemory(b, l))

				b.Latency.Store(int64(100 * time.Millisecond))
				ctx, cancel := context.WithTimeout(b.Context(), timeout)
				defer cancel()
				err := change(ctx, client, l)
				if timeout < time.Hour {
					require.ErrorIs(b, err, context.DeadlineExceeded)
					pass(time.Second)
				} else {
					require.NoError(b, err)
				}
				assert.False(b, fromMemory(b, l))
			})
		}
	}
}

func TestLease_LimiterIsDeletedOrMoved_IsNotUsed(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, l *Limiter) error{
		"Delete": func(ctx context.Context, l *Limiter) error { return errOf(l.Delete(ctx)) },
		"Rename": func(ctx context.Context, l *Limiter) error { return l.Rename(ctx, "other") },
	} {
		inLease(t, Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *Limiter) {
			require.Equal(b, 300, b.Often(l, 300, 30*time.Microsecond))
			require.NoError(b, change(b.Context(), l))
			_, err := l.TryAcquire(b.Context(), 1)
			require.ErrorIs(b, err, ErrNotInitialized, name)
		})
	}
}

func TestWithDenialCache_SeveralDenied_SmallestIsStored(t *testing.T) {
	for name, wants := range map[string][]int64{"first": {4, 5, 6}, "in the middle": {6, 4, 5}, "last": {6, 5, 4}} {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache(time.Hour))
			b.Take(l, 7)
			b.Latency.Store(int64(10 * time.Millisecond))
			redistest.Crowd(2+len(wants), func(i int) (Decision, error) {
				if i < 2 { // their calls are in flight while the others arrive
					return l.Take(b.Context(), 11)
				}
				return l.Take(b.Context(), wants[i-2])
			})
			pass(time.Second)
			before := b.Scripts.Load()
			for _, permits := range wants {
				b.Full(l, permits)
			}
			assert.Equal(b, before, b.Scripts.Load(), "denied from memory")
			b.Take(l, 3)
		})
	}
}
