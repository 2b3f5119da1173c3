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
func fromMemory(f *fixture, l *Limiter) bool {
	before := f.Scripts.Load()
	_, _ = l.Take(f.Context(), 1)
	return f.Scripts.Load() == before
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
			return redistest.Err(l.UpdateRate(ctx, hour))
		},
		"Delete": func(ctx context.Context, _ *Client, l *Limiter) error {
			return redistest.Err(l.Delete(ctx))
		},
		"Expire": func(ctx context.Context, _ *Client, l *Limiter) error {
			return redistest.Err(l.Expire(ctx, 0))
		},
		"ExpireAt": func(ctx context.Context, _ *Client, l *Limiter) error {
			return redistest.Err(l.ExpireAt(ctx, time.Now().Add(-time.Second)))
		},
		"Rename": func(ctx context.Context, _ *Client, l *Limiter) error {
			return l.Rename(ctx, "elsewhere")
		},
		"Copy": func(ctx context.Context, c *Client, _ *Limiter) error {
			return redistest.Err(c.Limiter("full").Copy(ctx, "limiter", Replace()))
		},
		"Rename onto": func(ctx context.Context, c *Client, _ *Limiter) error {
			return c.Limiter("full").Rename(ctx, "limiter")
		},
	} {
		for kind, timeout := range map[string]time.Duration{"": time.Hour, ", caller left": 50 * time.Millisecond} {
			runWithRedis(t, name+kind, func(t *testing.T, f *fixture) {
				client := New(f.Conn, WithDenialCache(time.Hour))
				l := client.Limiter("limiter")
				require.NoError(t, l.SetRate(t.Context(), hour))
				require.NoError(t, client.Limiter("full").SetRate(t.Context(), hour))
				f.RequireGranted(l, 10)
				f.RequireDenied(l, 1)
				synctest.Wait()
				require.True(t, fromMemory(f, l))

				f.Latency.Store(int64(100 * time.Millisecond))
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				err := change(ctx, client, l)
				if timeout < time.Hour {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					time.Sleep(time.Second)
				} else {
					require.NoError(t, err)
				}
				assert.False(t, fromMemory(f, l))
			})
		}
	}
}

func TestLease_LimiterIsDeletedOrMoved_IsNotUsed(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, l *Limiter) error{
		"Delete": func(ctx context.Context, l *Limiter) error { return redistest.Err(l.Delete(ctx)) },
		"Rename": func(ctx context.Context, l *Limiter) error { return l.Rename(ctx, "other") },
	} {
		inLease(t, Rate{Permits: 10_000, Interval: 10 * time.Second}, func(t *testing.T, f *fixture, l *Limiter) {
			require.Equal(t, 300, f.CountGranted(l, 300, 30*time.Microsecond))
			require.NoError(t, change(t.Context(), l))
			_, err := l.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, ErrNotInitialized, name)
		})
	}
}

func TestWithDenialCache_SeveralDenied_SmallestIsStored(t *testing.T) {
	for name, wants := range map[string][]int64{"first": {4, 5, 6}, "in the middle": {6, 4, 5}, "last": {6, 5, 4}} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache(time.Hour))
			f.RequireGranted(l, 7)
			f.Latency.Store(int64(10 * time.Millisecond))
			redistest.Crowd(2+len(wants), func(i int) (Decision, error) {
				if i < 2 { // their calls are in flight while the others arrive
					return l.Take(t.Context(), 11)
				}
				return l.Take(t.Context(), wants[i-2])
			})
			time.Sleep(time.Second)
			before := f.Scripts.Load()
			for _, permits := range wants {
				f.RequireDenied(l, permits)
			}
			assert.Equal(t, before, f.Scripts.Load(), "denied from memory")
			f.RequireGranted(l, 3)
		})
	}
}
