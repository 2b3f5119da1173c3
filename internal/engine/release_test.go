package engine_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestRefund_GrantHasExpired_ReturnsNothing: a server hung for longer than the interval. The grant
// of a caller that left has expired when its refund arrives, and the permits belong to others.
func TestRefund_GrantHasExpired_ReturnsNothing(t *testing.T) {
	for name, call := range map[string]func(context.Context, *rratelimiter.Limiter) error{
		"TryAcquire": func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.TryAcquire(ctx, 10)) },
		"Acquire":    func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Acquire(ctx, 10) },
	} {
		runWithRedis(t, name, func(b *fixture) {
			slow := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Second})
			other := rratelimiter.New(b.QuickConn()).Limiter("limiter")
			b.Latency.Store(int64(3 * time.Second))
			ctx, cancel := context.WithTimeout(b.Context(), 500*time.Millisecond)
			defer cancel()
			require.ErrorIs(b, call(ctx, slow), context.DeadlineExceeded)

			// The slow call is carried out after 3 s, as of 0 s; what gives its permits back
			// comes seconds later.
			pass(4 * time.Second)
			var last time.Time
			for range 100 {
				ok, err := other.TryAcquire(b.Context(), 10)
				require.NoError(b, err)
				if ok {
					require.GreaterOrEqual(b, time.Since(last), time.Second, "since the rate was granted before")
					last = time.Now()
				}
				pass(100 * time.Millisecond)
			}
			require.False(b, last.IsZero())
		})
	}
}

// TestRefund_SharedGrant_RestStaysInTheWindow: permits of callers that left return once, those of
// the others when they expire.
func TestRefund_SharedGrant_RestStaysInTheWindow(t *testing.T) {
	for name, call := range map[string]func(context.Context, *rratelimiter.Limiter, int64) error{
		"TryAcquire": func(ctx context.Context, l *rratelimiter.Limiter, n int64) error {
			return errOf(l.TryAcquire(ctx, n))
		},
		"Acquire": func(ctx context.Context, l *rratelimiter.Limiter, n int64) error { return l.Acquire(ctx, n) },
	} {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(rratelimiter.Rate{Permits: 320, Interval: 10 * second})
			for range 300 { // more than a page, so that only a grant that is named is found
				b.Take(l, 1)
			}
			// The caller of 3 goes when its call, which carries others too, is at the server.
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.Redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
				_, given := redistest.ScriptCall(command, args)
				if len(given) > requestsArg && strings.Contains(given[requestsArg], "3*1") {
					assert.Contains(b, given[requestsArg], " ")
					cancel()
					pass(10 * time.Millisecond)
				}
				return false
			})
			b.Latency.Store(int64(100 * time.Millisecond))
			wants := []int64{1, 1, 3, 4, 5, 50}
			_, errs := redistest.Crowd(len(wants), func(i int) (rratelimiter.Decision, error) {
				if i == 2 {
					return rratelimiter.Decision{}, call(ctx, l, wants[i])
				}
				if i == 5 && name == "Acquire" {
					return rratelimiter.Decision{}, nil // it would wait
				}
				return rratelimiter.Decision{}, call(b.Context(), l, wants[i])
			})
			for i, err := range errs {
				if i == 2 {
					require.ErrorIs(b, err, context.Canceled)
				} else {
					require.NoError(b, err)
				}
			}
			b.Latency.Store(0)
			pass(second)
			held := int64(-300)
			members, err := b.Redis.ZMembers("{limiter}:permits")
			require.NoError(b, err)
			for _, m := range members {
				permits := int64(m[17]) | int64(m[18])<<8 | int64(m[19])<<16 | int64(m[20])<<24
				assert.Positive(b, permits)
				held += permits
			}
			assert.EqualValues(b, 11, held, "permits in the window")
			b.Free(l, 9)
			b.Take(l, 9)
			b.Full(l, 1)
			pass(5 * second)
			b.Full(l, 1)
			pass(5 * second)
			b.Take(l, 320)
		})
	}
}

// TestRefund_WholeGrant_LeavesNothing: up to the most permits of a member.
func TestRefund_WholeGrant_LeavesNothing(t *testing.T) {
	for _, permits := range []int64{1, math.MaxUint32 - 1, math.MaxUint32} {
		withRedis(t, func(b *fixture) {
			l := b.limiter(rratelimiter.Rate{Permits: int64(1 << 53), Interval: time.Hour})
			b.Latency.Store(int64(second))
			before := b.Scripts.Load()
			ctx, cancel := context.WithTimeout(b.Context(), second/2)
			defer cancel()
			_, err := l.TryAcquire(ctx, permits)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			pass(time.Minute)
			b.Latency.Store(0)
			assert.EqualValues(b, 2, b.Scripts.Load()-before)
			b.Free(l, int64(1<<53))
			assert.False(b, b.Redis.Exists("{limiter}:permits"))
		})
	}
}

// TestRefund_NothingGranted_ReturnsNothing: the caller that left was denied, or its call failed.
func TestRefund_NothingGranted_ReturnsNothing(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour})
		b.Take(l, 8)
		before := b.Scripts.Load()
		b.Latency.Store(int64(second))
		for i, permits := range []int64{3, 1} {
			if i == 1 {
				b.Redis.SetError("OOM")
			}
			ctx, cancel := context.WithTimeout(b.Context(), second/2)
			defer cancel()
			_, err := l.TryAcquire(ctx, permits)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			pass(time.Minute)
			if i == 0 {
				assert.EqualValues(b, 1, b.Scripts.Load()-before, "calls")
			}
			b.Redis.SetError("")
		}
		b.Latency.Store(0)
		b.Free(l, 2)
	})
}
