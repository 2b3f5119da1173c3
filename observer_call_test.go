package rratelimiter

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestCallsThatShareAPipelineAreToldOfEach.
func TestCallsThatShareAPipelineAreToldOfEach(t *testing.T) {
	observed(t, Rate{Permits: 1000, Interval: time.Hour}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		const names = 40
		sent := b.Sent.Load()
		var callers sync.WaitGroup
		for i := range names {
			name := l.wire.client.Limiter(fmt.Sprint("name ", i))
			for range 3 {
				callers.Go(func() {
					_, err := name.TryAcquire(ctx, 1)
					assert.ErrorIs(b, err, ErrNotInitialized)
				})
			}
		}
		callers.Wait()
		decisions, calls, _ := o.all()
		assert.Len(b, decisions, 3*names)
		assert.Less(b, b.Sent.Load()-sent, int64(len(calls)), "in pipelines")
		carried := make(map[string]int)
		for _, c := range calls {
			carried[c.Name] += c.Requests
		}
		assert.Len(b, carried, names)
		for name, requests := range carried {
			assert.Equal(b, 3, requests, name)
		}
	})
}

// TestACallIsToldByTheNameOfWhoTellsOfIt, where a limiter has several.
func TestACallIsToldByTheNameOfWhoTellsOfIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var mu sync.Mutex
		told := make(map[string]any)
		l := b.limiter(Rate{Permits: 1000, Interval: time.Hour}, WithNameMapper(func(string) string { return "limiter" }),
			WithObserver(&Observer{RedisCall: func(ctx context.Context, c RedisCallInfo) {
				mu.Lock()
				defer mu.Unlock()
				told[c.Name] = ctx.Value(callerKey{})
			}}))
		b.Latency.Store(int64(trip))
		for _, waits := range []bool{false, true} {
			clear(told)
			var callers sync.WaitGroup
			for _, name := range []string{"a", "b", "c", "d"} { // two calls may fly at once, so that a goroutine carries several
				ctx := context.WithValue(b.Context(), callerKey{}, name)
				callers.Go(func() {
					if waits {
						assert.NoError(b, l.wire.client.Limiter(name).Acquire(ctx, 1))
						return
					}
					ok, err := l.wire.client.Limiter(name).TryAcquire(ctx, 1)
					assert.NoError(b, err)
					assert.True(b, ok)
				})
				synctest.Wait()
			}
			callers.Wait()
			assert.Greater(b, len(told), 1)
			for name, teller := range told {
				assert.Equal(b, name, teller)
			}
		}
	})
}
