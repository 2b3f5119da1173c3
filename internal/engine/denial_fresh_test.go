package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestWithDenialCache_CallerOfTheChangeHasLeft_DenialIsForgotten: once the server has answered.
func TestWithDenialCache_CallerOfTheChangeHasLeft_DenialIsForgotten(t *testing.T) {
	hour := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
	for name, change := range map[string]func(context.Context, *rratelimiter.Client, *rratelimiter.Limiter) error{
		"Release": func(ctx context.Context, _ *rratelimiter.Client, l *rratelimiter.Limiter) error {
			return l.Release(ctx, 3)
		},
		"SetRate": func(ctx context.Context, _ *rratelimiter.Client, l *rratelimiter.Limiter) error {
			return l.SetRate(ctx, hour)
		},
		"UpdateRate": func(ctx context.Context, _ *rratelimiter.Client, l *rratelimiter.Limiter) error {
			return errOf(l.UpdateRate(ctx, hour))
		},
		"Delete": func(ctx context.Context, _ *rratelimiter.Client, l *rratelimiter.Limiter) error {
			return errOf(l.Delete(ctx))
		},
		"Expire": func(ctx context.Context, _ *rratelimiter.Client, l *rratelimiter.Limiter) error {
			return errOf(l.Expire(ctx, 0))
		},
		"ExpireAt": func(ctx context.Context, _ *rratelimiter.Client, l *rratelimiter.Limiter) error {
			return errOf(l.ExpireAt(ctx, time.Now().Add(-second)))
		},
		"Rename": func(ctx context.Context, _ *rratelimiter.Client, l *rratelimiter.Limiter) error {
			return l.Rename(ctx, "elsewhere")
		},
		"Copy": func(ctx context.Context, c *rratelimiter.Client, _ *rratelimiter.Limiter) error {
			return errOf(c.Limiter("full").Copy(ctx, "limiter", rratelimiter.Replace()))
		},
		"Rename onto": func(ctx context.Context, c *rratelimiter.Client, _ *rratelimiter.Limiter) error {
			return c.Limiter("full").Rename(ctx, "limiter")
		},
	} {
		for kind, timeout := range map[string]time.Duration{"": time.Hour, ", caller left": 50 * time.Millisecond} {
			runWithRedis(t, name+kind, func(b *fixture) {
				l := b.limiter(hour, rratelimiter.WithDenialCache(time.Hour))
				require.NoError(b, b.client.Limiter("full").SetRate(b.Context(), hour))
				b.Take(l, 10)
				b.Full(l, 1)
				synctest.Wait()
				_, denied := b.remembered(l, 1)
				require.True(b, denied)

				b.Latency.Store(int64(100 * time.Millisecond))
				ctx, cancel := context.WithTimeout(b.Context(), timeout)
				defer cancel()
				err := change(ctx, b.client, l)
				if timeout < time.Hour {
					require.ErrorIs(b, err, context.DeadlineExceeded)
					pass(second)
				} else {
					require.NoError(b, err)
				}
				_, denied = b.remembered(l, 1)
				assert.False(b, denied)
			})
		}
	}
	runWithRedis(t, "TrySetRate of a limiter that is gone", func(b *fixture) {
		l := b.limiter(hour, rratelimiter.WithDenialCache(time.Hour))
		b.Take(l, 10)
		b.Full(l, 1)
		synctest.Wait()
		b.Redis.FlushAll() // by another program
		_, err := l.TrySetRate(b.Context(), hour)
		require.NoError(b, err)
		b.Take(l, 10)
	})
}

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

// TestWithDenialCache_CallGrantsAndDenies_DenialIsStored: it counts the grants of its own call.
func TestWithDenialCache_CallGrantsAndDenies_DenialIsStored(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithDenialCache(time.Hour))
		b.Take(l, 7)
		b.Latency.Store(int64(10 * time.Millisecond))
		answers, _ := redistest.Crowd(4, func(i int) (rratelimiter.Decision, error) {
			// The calls of the first two are in flight while the others arrive.
			return l.Take(b.Context(), []int64{11, 11, 2, 3}[i])
		})
		require.True(b, answers[2].Allowed)
		require.False(b, answers[3].Allowed)
		pass(second)
		d, denied := b.remembered(l, 3)
		assert.True(b, denied)
		assert.EqualValues(b, 1, d.Remaining)
	})
}
