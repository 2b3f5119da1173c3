package limit

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// perMinute returns the policies with reservations that grant so many permits a minute, one at once.
func perMinute(permits int64) []Policy {
	return []Policy{
		TokenBucket{1, permits, time.Minute}, LeakyBucket{1, permits, time.Minute},
		Smooth{Permits: permits, Interval: time.Minute, Burst: ms},
	}
}

// crowd has so many callers wait for a permit each, and returns when they wait.
func (b *fixture) crowd(ctx context.Context, l *Limiter, callers int) (left *sync.WaitGroup) {
	left = new(sync.WaitGroup)
	for range callers {
		left.Go(func() {
			if err := l.Acquire(ctx, 1); err != nil {
				assert.ErrorIs(b, err, context.Canceled)
			}
		})
		synctest.Wait()
	}
	return left
}

// delayOfNext returns how long the next caller waits, of another process.
func (b *fixture) delayOfNext(p Policy) time.Duration {
	b.Helper()
	return must(b, New(rratelimiter.New(b.Conn), "name", p).Reserve, 1).Delay()
}

// TestAcquire_ProgramEnds_NextOneIsServedSoon: all callers of a program leave at once.
func TestAcquire_ProgramEnds_NextOneIsServedSoon(t *testing.T) {
	for _, p := range perMinute(10) {
		withRedis(t, func(b *fixture) {
			ctx, end := context.WithCancel(b.Context())
			callers := b.crowd(ctx, New(b.client, "name", p), 200)
			redistest.Pass(100 * ms)
			before := b.Scripts.Load()
			end()
			callers.Wait()
			synctest.Wait()
			// A waiter that has not left yet may get the place of one that has.
			assert.LessOrEqual(b, b.Scripts.Load()-before, int64(5), "%T: calls", p)
			assert.LessOrEqual(b, b.delayOfNext(p), 6*time.Second, "%T", p)
		})
	}
}

// TestAcquire_CallersLeave_ReturnAllButASecond: in any order, of a fast limiter and of a slow one.
func TestAcquire_CallersLeave_ReturnAllButASecond(t *testing.T) {
	for _, perInterval := range []int64{10, 600} {
		interval := time.Minute / time.Duration(perInterval)
		for _, p := range perMinute(perInterval) {
			withRedis(t, func(b *fixture) {
				l := New(b.client, "name", p)
				var leave []context.CancelFunc
				var callers []*sync.WaitGroup
				for range 150 {
					ctx, cancel := context.WithCancel(b.Context())
					leave, callers = append(leave, cancel), append(callers, b.crowd(ctx, l, 1))
				}
				for i, cancel := range leave { // the oldest first, one after another
					cancel()
					callers[i].Wait()
					synctest.Wait()
				}
				assert.LessOrEqual(b, b.delayOfNext(p), time.Second+2*interval, "%T of %d", p, perInterval)
			})
		}
	}
}

// TestAcquire_ProcessIsKilled_KeepsASecond: it returns nothing. The last reservation begins within the
// second.
func TestAcquire_ProcessIsKilled_KeepsASecond(t *testing.T) {
	for _, p := range perMinute(600) {
		withRedis(t, func(b *fixture) {
			ctx, end := context.WithCancel(b.Context())
			callers := b.crowd(ctx, New(b.client, "name", p), 500)
			assert.LessOrEqual(b, b.delayOfNext(p), time.Second+200*ms, "%T", p)
			end()
			callers.Wait()
		})
	}
}

// TestAcquire_ManyWaiters_ShareCalls: and each is served at its time.
func TestAcquire_ManyWaiters_ShareCalls(t *testing.T) {
	for _, p := range perMinute(60_000) {
		withRedis(t, func(b *fixture) {
			l := New(b.client, "name", p)
			began := time.Now()
			var callers sync.WaitGroup
			for range 2000 {
				callers.Go(func() { assert.NoError(b, l.Acquire(b.Context(), 1)) })
			}
			callers.Wait()
			assert.InDelta(b, 2*time.Second, time.Since(began), float64(10*ms), "%T", p)
			assert.Less(b, b.Scripts.Load(), int64(30), "%T: calls", p)
		})
	}
}

// TestAcquire_LongRequestWaits_ShortOneDoesNotOvertake: it is within the time for which the queue
// reserves, and the long one is not.
func TestAcquire_LongRequestWaits_ShortOneDoesNotOvertake(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.client, "name", TokenBucket{100, 10, time.Second})
		require.NoError(b, l.Acquire(b.Context(), 100))
		var mu sync.Mutex
		var served []int64
		var callers sync.WaitGroup
		for _, permits := range []int64{1, 50, 2} {
			callers.Go(func() {
				assert.NoError(b, l.Acquire(b.Context(), permits))
				mu.Lock()
				defer mu.Unlock()
				served = append(served, permits)
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(b, []int64{1, 50, 2}, served)
	})
}

// TestFlush_CallersHaveLeft_WaitsForTheirPermits: a program that ends returns them.
func TestFlush_CallersHaveLeft_WaitsForTheirPermits(t *testing.T) {
	withRedis(t, func(b *fixture) {
		p := TokenBucket{1, 1, time.Hour}
		l := New(b.client, "name", p)
		require.NoError(b, l.Acquire(b.Context(), 1))
		ctx, end := context.WithCancel(b.Context())
		callers := b.crowd(ctx, l, 3)
		b.Latency.Store(int64(50 * ms))
		end()
		callers.Wait()
		began := time.Now()
		require.NoError(b, b.client.Flush(b.Context()))
		assert.GreaterOrEqual(b, time.Since(began), 50*ms)
		b.Latency.Store(0)
		assert.LessOrEqual(b, b.delayOfNext(p), time.Hour)
	})
}
