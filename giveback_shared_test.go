package rratelimiter

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOfASharedGrantTheRestStays: permits of those who went come back once, those of who stayed when they leave the window.
func TestOfASharedGrantTheRestStays(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Limiter, int64) error{
		"TryAcquire": func(ctx context.Context, l *Limiter, n int64) error { _, err := l.TryAcquire(ctx, n); return err },
		"Acquire":    func(ctx context.Context, l *Limiter, n int64) error { return l.Acquire(ctx, n) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 20, Interval: 10 * second})
				b.latency.Store(int64(100 * time.Millisecond))
				wants := []int64{1, 1, 3, 4, 5} // the last three share a call, or the last four
				_, errs := crowd(b, len(wants), func(i int) (Decision, error) {
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					if i == 2 {
						time.AfterFunc(250*time.Millisecond, cancel)
						if name == "Acquire" {
							time.AfterFunc(150*time.Millisecond, cancel)
						}
					}
					return Decision{}, call(ctx, l, wants[i])
				})
				for i, err := range errs {
					if i == 2 {
						require.ErrorIs(b, err, context.Canceled)
					} else {
						require.NoError(b, err)
					}
				}
				b.latency.Store(0)
				pass(second)
				held := int64(0)
				members, err := b.redis.ZMembers("{limiter}:permits")
				require.NoError(b, err)
				for _, m := range members {
					permits := int64(m[17]) | int64(m[18])<<8 | int64(m[19])<<16 | int64(m[20])<<24
					assert.Positive(b, permits)
					held += permits
				}
				assert.EqualValues(b, 11, held, "permits in the window")
				b.free(l, 9)
				b.take(l, 9)
				b.full(l, 1)
				pass(5 * second)
				b.full(l, 1)
				pass(5 * second)
				b.take(l, 20)
			})
		})
	}
}

// TestAWholeGrantIsGivenBack up to what one member counts, and leaves nothing behind.
func TestAWholeGrantIsGivenBack(t *testing.T) {
	for permits, back := range map[int64]bool{1: true, math.MaxUint32 - 1: true, math.MaxUint32: true, math.MaxUint32 + 1: false} {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: maxPermits, Interval: time.Hour})
			b.latency.Store(int64(second))
			before := b.scripts.Load()
			ctx, cancel := context.WithTimeout(b.Context(), second/2)
			defer cancel()
			_, err := l.TryAcquire(ctx, permits)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			pass(time.Minute)
			b.latency.Store(0)
			if back {
				assert.EqualValues(b, 2, b.scripts.Load()-before)
				b.free(l, maxPermits)
				assert.False(b, b.redis.Exists("{limiter}:permits"))
			} else {
				assert.EqualValues(b, 1, b.scripts.Load()-before, "it comes back by itself, without a call that finds nothing")
				b.free(l, maxPermits-permits)
			}
		})
	}
}

// TestWhatWasNotGrantedIsNotGivenBack: a caller that went is denied, or its call failed.
func TestWhatWasNotGrantedIsNotGivenBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		b.take(l, 8)
		before := b.scripts.Load()
		b.latency.Store(int64(second))
		for i, permits := range []int64{3, 1} {
			if i == 1 {
				b.redis.SetError("OOM")
			}
			ctx, cancel := context.WithTimeout(b.Context(), second/2)
			defer cancel()
			_, err := l.TryAcquire(ctx, permits)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			pass(time.Minute)
			b.redis.SetError("")
		}
		b.latency.Store(0)
		assert.LessOrEqual(b, b.scripts.Load()-before, int64(2), "calls")
		b.free(l, 2)
	})
}
