package rratelimiter

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Issue 9, point 8: a clock that panics does so in one caller's name; everybody else is served, and the name goes on.
func TestAClockThatPanicsHurtsItsOwnCallAlone(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Limiter) error{
		"TryAcquire":       func(ctx context.Context, l *Limiter) error { _, err := l.TryAcquire(ctx, 1); return err },
		"Take":             func(ctx context.Context, l *Limiter) error { _, err := l.Take(ctx, 1); return err },
		"Acquire":          func(ctx context.Context, l *Limiter) error { return l.Acquire(ctx, 1) },
		"TryAcquireWithin": func(ctx context.Context, l *Limiter) error { _, err := l.TryAcquireWithin(ctx, 1, second); return err },
		"Release":          func(ctx context.Context, l *Limiter) error { return l.Release(ctx, 1) },
		"AvailablePermits": func(ctx context.Context, l *Limiter) error { _, err := l.AvailablePermits(ctx); return err },
	} {
		for kind, cancellable := range map[string]bool{"": false, ", with a context that can end": true} {
			t.Run(name+kind, func(t *testing.T) {
				inBubble(t, func(b *bubble) {
					var panics atomic.Int64
					l := b.limiter(Rate{Permits: 1000, Interval: time.Hour}, WithClock(func() time.Time {
						if panics.Add(-1) >= 0 {
							panic("no time")
						}
						return time.Now()
					}))
					ctx := context.Background()
					if cancellable {
						ctx = b.Context()
					}
					// Alone, more often than there may be calls in flight.
					for range 5 {
						panics.Store(1)
						assert.PanicsWithValue(b, "no time", func() { _ = call(ctx, l) })
					}
					panics.Store(0)
					require.NoError(b, call(ctx, l))

					// Among others.
					b.latency.Store(int64(10 * time.Millisecond))
					panics.Store(3)
					var hurt, served atomic.Int64
					var callers sync.WaitGroup
					for range 50 {
						callers.Go(func() {
							defer func() {
								if recover() != nil {
									hurt.Add(1)
								}
							}()
							assert.NoError(b, call(ctx, l))
							served.Add(1)
						})
					}
					callers.Wait()
					assert.EqualValues(b, 3, hurt.Load())
					assert.EqualValues(b, 47, served.Load())
					synctest.Wait()
					assert.True(b, l.client.engine.Idle())
				})
			})
		}
	}
}

// Issue 9, point 8: nobody is there for the clock that is read when permits of a caller that has gone are given back.
func TestAClockThatPanicsWhilePermitsAreGivenBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var broken atomic.Bool
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithClock(func() time.Time {
			if broken.Load() {
				panic("no time")
			}
			return time.Now()
		}))
		b.latency.Store(int64(second))
		ctx, cancel := context.WithTimeout(b.Context(), second/2)
		defer cancel()
		_, err := l.TryAcquire(ctx, 3)
		require.ErrorIs(b, err, context.DeadlineExceeded)
		broken.Store(true)
		pass(time.Minute)
		broken.Store(false)
		b.latency.Store(0)
		b.take(l, 7)
	})
}

// Issue 9, point 8: a name mapper is called for Limiter, Rename and Copy, and nothing is half-done where it panics.
func TestANameMapperThatPanicsHurtsItsOwnCallAlone(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithNameMapper(func(name string) string {
			if name == "bad" {
				panic("no name")
			}
			return name
		}))
		for range 5 {
			assert.PanicsWithValue(b, "no name", func() { l.client.Limiter("bad") })
			assert.PanicsWithValue(b, "no name", func() { _ = l.Rename(b.Context(), "bad") })
			assert.PanicsWithValue(b, "no name", func() { _, _ = l.Copy(b.Context(), "bad") })
		}
		b.take(l, 10)
	})
}
