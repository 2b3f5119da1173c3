package limit

import (
	"context"
	"fmt"
	"maps"
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
	calls := maps.Clone(takingCalls)
	calls["TakeUpTo"] = func(ctx context.Context, l *Limiter, n int64) error {
		_, _, err := l.TakeUpTo(ctx, n)
		return err
	}
	calls["Reserve"] = func(ctx context.Context, l *Limiter, n int64) error { return redistest.Err(l.Reserve(ctx, n)) }
	for name, take := range calls {
		for _, joins := range []bool{false, true} {
			if joins && name == "Reserve" {
				continue
			}
			runWithRedis(t, fmt.Sprintf("%s, join %t", name, joins), func(t *testing.T, f *fixture) {
				client := rratelimiter.New(f.Conn, rratelimiter.WithDenialCache(time.Hour))
				l := New(client, "name", policy)
				taker := l
				if joins {
					taker = Join(l, New(client, "other", FixedWindow{100, time.Hour, false}))
				}
				require.True(t, redistest.Result(t, l.Take, 7).Allowed)
				want := rratelimiter.Decision{Limit: 10, Remaining: 3, RetryAfter: 6 * time.Second, ResetAfter: 42 * time.Second}
				require.Equal(t, want, redistest.Result(t, l.Take, 4))
				require.NoError(t, take(t.Context(), taker, 3))
				want = rratelimiter.Decision{Limit: 10, RetryAfter: 24 * time.Second, ResetAfter: time.Minute}
				assert.Equal(t, want, redistest.Result(t, l.Take, 4))
			})
		}
	}
}
