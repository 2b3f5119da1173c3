package limit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestWithDenialCache_OwnGrantSince_IsCounted: whichever call of this Client was granted permits that
// were free when others were denied, also through another limiter of the same key.
func TestWithDenialCache_OwnGrantSince_IsCounted(t *testing.T) {
	policy := TokenBucket{10, 10, time.Minute}
	for name, take := range map[string]func(ctx context.Context, l, joined *Limiter) error{
		"TryAcquire": func(ctx context.Context, l, _ *Limiter) error { return redistest.Err(l.TryAcquire(ctx, 3)) },
		"Take":       func(ctx context.Context, l, _ *Limiter) error { return redistest.Err(l.Take(ctx, 3)) },
		"TakeUpTo": func(ctx context.Context, l, _ *Limiter) error {
			_, _, err := l.TakeUpTo(ctx, 3)
			return err
		},
		"Acquire": func(ctx context.Context, l, _ *Limiter) error { return l.Acquire(ctx, 3) },
		"Reserve": func(ctx context.Context, l, _ *Limiter) error { return redistest.Err(l.Reserve(ctx, 3)) },
		"Join": func(ctx context.Context, _, joined *Limiter) error {
			return redistest.Err(joined.TryAcquire(ctx,
				3))
		},
		"Join Acquire": func(ctx context.Context, _, joined *Limiter) error { return joined.Acquire(ctx, 3) },
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			client := rratelimiter.New(f.Conn, rratelimiter.WithDenialCache(time.Hour))
			l := New(client, "name", policy)
			joined := Join(l, New(client, "other", FixedWindow{100, time.Hour, false}))
			require.True(t, redistest.Result(t, l.Take, 7).Allowed)
			want := rratelimiter.Decision{Limit: 10, Remaining: 3, RetryAfter: 6 * time.Second, ResetAfter: 42 * time.Second}
			require.Equal(t, want, redistest.Result(t, l.Take, 4))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			require.NoError(t, take(ctx, l, joined))
			want = rratelimiter.Decision{Limit: 10, RetryAfter: 24 * time.Second, ResetAfter: time.Minute}
			assert.Equal(t, want, redistest.Result(t, l.Take, 4))
		})
	}
}
