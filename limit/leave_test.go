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
		Smooth{Permits: permits, Interval: time.Minute, Burst: time.Millisecond},
	}
}

// crowd has so many callers wait for a permit each, and returns when they wait.
func (f *fixture) crowd(ctx context.Context, l *Limiter, callers int) (left *sync.WaitGroup) {
	left = new(sync.WaitGroup)
	for range callers {
		left.Go(func() {
			if err := l.Acquire(ctx, 1); err != nil {
				assert.ErrorIs(f, err, context.Canceled)
			}
		})
		synctest.Wait()
	}
	return left
}

// delayOfNext returns how long the next caller waits, of another process.
func (f *fixture) delayOfNext(p Policy) time.Duration {
	f.Helper()
	return redistest.Result(f, New(rratelimiter.New(f.Conn), "name", p).Reserve, 1).Delay()
}

// TestAcquire_ProgramEnds_NextOneIsServedSoon: all callers of a program leave at once.
func TestAcquire_ProgramEnds_NextOneIsServedSoon(t *testing.T) {
	for _, p := range perMinute(10) {
		withRedis(t, func(t *testing.T, f *fixture) {
			ctx, end := context.WithCancel(t.Context())
			callers := f.crowd(ctx, New(f.client, "name", p), 200)
			time.Sleep(100 * time.Millisecond)
			before := f.Scripts.Load()
			end()
			callers.Wait()
			synctest.Wait()
			// A waiter that has not left yet may get the place of one that has.
			assert.LessOrEqual(t, f.Scripts.Load()-before, int64(5), "%T: calls", p)
			assert.LessOrEqual(t, f.delayOfNext(p), 6*time.Second, "%T", p)
		})
	}
}

// TestAcquire_CallersLeave_ReturnAllButASecond: in any order, of a fast limiter and of a slow one.
func TestAcquire_CallersLeave_ReturnAllButASecond(t *testing.T) {
	for _, perInterval := range []int64{10, 600} {
		interval := time.Minute / time.Duration(perInterval)
		for _, p := range perMinute(perInterval) {
			withRedis(t, func(t *testing.T, f *fixture) {
				l := New(f.client, "name", p)
				var leave []context.CancelFunc
				var callers []*sync.WaitGroup
				for range 150 {
					ctx, cancel := context.WithCancel(t.Context())
					leave, callers = append(leave, cancel), append(callers, f.crowd(ctx, l, 1))
				}
				for i, cancel := range leave { // the oldest first, one after another
					cancel()
					callers[i].Wait()
					synctest.Wait()
				}
				assert.LessOrEqual(t, f.delayOfNext(p), time.Second+2*interval, "%T of %d", p, perInterval)
			})
		}
	}
}

// TestAcquire_ProcessIsKilled_KeepsASecond: it returns nothing. The last reservation begins within the
// second.
func TestAcquire_ProcessIsKilled_KeepsASecond(t *testing.T) {
	for _, p := range perMinute(600) {
		withRedis(t, func(t *testing.T, f *fixture) {
			ctx, end := context.WithCancel(t.Context())
			callers := f.crowd(ctx, New(f.client, "name", p), 500)
			assert.LessOrEqual(t, f.delayOfNext(p), time.Second+200*time.Millisecond, "%T", p)
			end()
			callers.Wait()
		})
	}
}

// TestAcquire_ManyWaiters_ShareCalls: and each is served at its time.
func TestAcquire_ManyWaiters_ShareCalls(t *testing.T) {
	for _, p := range perMinute(60_000) {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := New(f.client, "name", p)
			began := time.Now()
			var callers sync.WaitGroup
			for range 2000 {
				callers.Go(func() { assert.NoError(t, l.Acquire(t.Context(), 1)) })
			}
			callers.Wait()
			assert.InDelta(t, 2*time.Second, time.Since(began), float64(10*time.Millisecond), "%T", p)
			assert.Less(t, f.Scripts.Load(), int64(30), "%T: calls", p)
		})
	}
}

// TestAcquire_LongRequestWaits_ShortOneDoesNotOvertake: it is within the time for which the queue
// reserves, and the long one is not.
func TestAcquire_LongRequestWaits_ShortOneDoesNotOvertake(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", TokenBucket{100, 10, time.Second})
		require.NoError(t, l.Acquire(t.Context(), 100))
		var mu sync.Mutex
		var served []int64
		var callers sync.WaitGroup
		for _, permits := range []int64{1, 50, 2} {
			callers.Go(func() {
				assert.NoError(t, l.Acquire(t.Context(), permits))
				mu.Lock()
				defer mu.Unlock()
				served = append(served, permits)
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(t, []int64{1, 50, 2}, served)
	})
}

// TestFlush_CallersHaveLeft_WaitsForTheirPermits: a program that ends returns them.
func TestFlush_CallersHaveLeft_WaitsForTheirPermits(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := TokenBucket{1, 1, time.Hour}
		l := New(f.client, "name", p)
		require.NoError(t, l.Acquire(t.Context(), 1))
		ctx, end := context.WithCancel(t.Context())
		callers := f.crowd(ctx, l, 3)
		f.Latency.Store(int64(50 * time.Millisecond))
		end()
		callers.Wait()
		began := time.Now()
		require.NoError(t, f.client.Flush(t.Context()))
		assert.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
		f.Latency.Store(0)
		assert.LessOrEqual(t, f.delayOfNext(p), time.Hour)
	})
}
