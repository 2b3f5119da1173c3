package rratelimiter

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestACallerDoesNotFlyForOthers: one that sends its call itself has its answer before the next call leaves.
func TestACallerDoesNotFlyForOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 100, Interval: time.Hour})
		b.Latency.Store(int64(10 * time.Millisecond))
		start := time.Now()
		took := make([]time.Duration, 5)
		var callers sync.WaitGroup
		for i := range took {
			callers.Go(func() {
				_, err := l.TryAcquire(context.Background(), 1)
				assert.NoError(b, err)
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(b, 10*time.Millisecond, took[0])
		for _, later := range took[1:] {
			assert.GreaterOrEqual(b, later, 20*time.Millisecond)
		}
	})
}

// TestAFullBatchThatWaitsLeavesFirst, though a caller who comes later may send a call.
func TestAFullBatchThatWaitsLeavesFirst(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: maxGrant, Interval: time.Hour})
		b.Latency.Store(int64(10 * time.Millisecond))
		var callers sync.WaitGroup
		ask := func(permits int64) {
			callers.Go(func() {
				ok, err := l.TryAcquire(context.Background(), permits)
				assert.NoError(b, err)
				assert.Equal(b, permits < maxGrant, ok, "%d permits", permits)
			})
			synctest.Wait()
		}
		ask(1)
		ask(1)
		for range 4 { // each alone in its batch
			ask(maxGrant)
		}
		pass(15 * time.Millisecond) // one call was slow, so more may fly
		for range 10 {
			ask(2)
		}
		callers.Wait()
		b.Latency.Store(0)
		b.Free(l, maxGrant-22)
	})
}
