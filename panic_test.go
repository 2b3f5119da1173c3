package rratelimiter

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWithClock_ClockPanics_PanicsInItsCaller if the call runs on the caller's goroutine.
func TestWithClock_ClockPanics_PanicsInItsCaller(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var broken atomic.Bool
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithClock(func() time.Time {
			if broken.Load() {
				panic("no time")
			}
			return time.Now()
		}))
		broken.Store(true)
		for range 5 { // more often than calls may be in flight
			assert.PanicsWithValue(b, "no time", func() { _, _ = l.TryAcquire(context.Background(), 1) })
		}
		broken.Store(false)
		b.Take(l, 10)
		synctest.Wait()
		assert.True(b, l.wire.client.engine.Idle())
	})
}

// TestWithClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting, as a failed assertion in a clock does.
func TestWithClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting(t *testing.T) {
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
					var ends atomic.Int64
					l := b.limiter(Rate{Permits: 1000, Interval: time.Hour}, WithClock(func() time.Time {
						if ends.Add(-1) >= 0 {
							runtime.Goexit()
						}
						return time.Now()
					}))
					ctx := context.Background()
					if cancellable {
						ctx = b.Context()
					}
					b.Latency.Store(int64(10 * time.Millisecond))
					ends.Store(3)
					var callers sync.WaitGroup
					for range 50 {
						callers.Go(func() { _ = call(ctx, l) })
					}
					callers.Wait()
					ends.Store(0)
					require.NoError(b, call(ctx, l))
					synctest.Wait()
					assert.True(b, l.wire.client.engine.Idle())
				})
			})
		}
	}
}

// TestWithNameMapper_MapperPanics_PanicsInItsCaller: Limiter, Rename and Copy call it before they change anything.
func TestWithNameMapper_MapperPanics_PanicsInItsCaller(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithNameMapper(func(name string) string {
			if name == "bad" {
				panic("no name")
			}
			return name
		}))
		for range 5 {
			assert.PanicsWithValue(b, "no name", func() { l.wire.client.Limiter("bad") })
			assert.PanicsWithValue(b, "no name", func() { _ = l.Rename(b.Context(), "bad") })
			assert.PanicsWithValue(b, "no name", func() { _, _ = l.Copy(b.Context(), "bad") })
		}
		b.Take(l, 10)
	})
}
