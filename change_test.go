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

// TestWithDenialCache_LimiterChanges_DenialIsForgotten: also if the caller of the change has left,
// once the server has answered.
func TestWithDenialCache_LimiterChanges_DenialIsForgotten(t *testing.T) {
	hour := Rate{Permits: 10, Interval: time.Hour}
	changes := map[string]func(ctx context.Context, c *Client) error{
		"Rename to another": func(ctx context.Context, c *Client) error {
			return c.Limiter("limiter").Rename(ctx, "elsewhere")
		},
		"Rename onto it": func(ctx context.Context, c *Client) error { return c.Limiter("full").Rename(ctx, "limiter") },
		"Copy onto it": func(ctx context.Context, c *Client) error {
			return redistest.Err(c.Limiter("full").Copy(ctx, "limiter", Replace()))
		},
		"Expire": func(ctx context.Context, c *Client) error { return redistest.Err(c.Limiter("limiter").Expire(ctx, 0)) },
	}
	for _, name := range []string{"Release", "SetRate", "SetRate keep", "UpdateRate", "ExpireAt", "Delete", "Unlink"} {
		changes[name] = func(ctx context.Context, c *Client) error {
			return everyCallWith(c.Limiter("limiter"), 1, hour)[name](ctx)
		}
	}
	for name, change := range changes {
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
				err := change(ctx, client)
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
