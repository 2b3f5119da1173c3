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

// TestAcquire_ProcessIsKilled_KeepsASecond, and no less, so that its callers share calls. It returns
// nothing. The last reservation begins within the second.
func TestAcquire_ProcessIsKilled_KeepsASecond(t *testing.T) {
	eachPolicy(t, perMinute(600), func(t *testing.T, f *fixture, p Policy) {
		ctx, end := context.WithCancel(t.Context())
		callers := f.crowd(ctx, New(f.client, "name", p), 500)
		assert.InDelta(t, time.Second+100*time.Millisecond, f.delayOfNext(p), float64(100*time.Millisecond))
		end()
		callers.Wait()
	})
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

// TestAcquire_CallersOfTwoProcessesLeaveInTurn_KeepLittle: each has reserved behind the one before,
// which therefore returns nothing.
func TestAcquire_CallersOfTwoProcessesLeaveInTurn_KeepLittle(t *testing.T) {
	eachPolicy(t, perMinute(10), func(t *testing.T, f *fixture, p Policy) {
		processes := []*Limiter{New(f.client, "name", p), New(rratelimiter.New(f.Conn), "name", p)}
		require.NoError(t, processes[0].Acquire(t.Context(), 1))
		leave := func() {}
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			caller := f.crowd(ctx, processes[i%2], 1)
			time.Sleep(10 * time.Millisecond)
			leave()
			leave = func() {
				cancel()
				caller.Wait()
				synctest.Wait()
			}
		}
		leave()
		assert.LessOrEqual(t, f.delayOfNext(p), 13*time.Second, "a second, and one caller's")
	})
}

// TestAcquire_OthersTakeAllThatReturns_IsServed: they call TryAcquire, and keep a LeakyBucket full.
func TestAcquire_OthersTakeAllThatReturns_IsServed(t *testing.T) {
	eachPolicy(t, []Policy{
		TokenBucket{10, 10, 10 * time.Second}, LeakyBucket{10, 10, 10 * time.Second},
		Smooth{Permits: 10, Interval: 10 * time.Second, Burst: 10 * time.Second},
	}, func(t *testing.T, f *fixture, p Policy) {
		l := New(f.client, "name", p)
		ctx, cancel := context.WithCancel(t.Context())
		var callers, others sync.WaitGroup
		others.Go(func() {
			for ctx.Err() == nil {
				redistest.Result(t, New(rratelimiter.New(f.Conn), "name", p).TryAcquire, 1)
				time.Sleep(100 * time.Millisecond)
			}
		})
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		for range 3 {
			callers.Go(func() { assert.NoError(t, l.Acquire(t.Context(), 10)) })
		}
		callers.Wait()
		assert.LessOrEqual(t, time.Since(began), 32*time.Second)
		cancel()
		others.Wait()
	})
}

// TestAcquire_LaterThanAnyReservation_MakesFewCalls: the permits return after the longest delay.
func TestAcquire_LaterThanAnyReservation_MakesFewCalls(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", TokenBucket{1 << 32, 1, time.Hour})
		require.True(t, redistest.Result(t, l.TryAcquire, 1<<32-1))
		ctx, end := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() { assert.ErrorIs(t, l.Acquire(ctx, 1<<32-1), context.Canceled) })
		}
		time.Sleep(time.Minute)
		assert.Less(t, f.Scripts.Load(), int64(20))
		end()
		callers.Wait()
	})
}

// TestAcquire_CallersInFlightLeave_ReturnAll: with others, which have reservations already.
func TestAcquire_CallersInFlightLeave_ReturnAll(t *testing.T) {
	eachPolicy(t, perMinute(600), func(t *testing.T, f *fixture, p Policy) {
		l := New(f.client, "name", p)
		require.NoError(t, l.Acquire(t.Context(), 1))
		ctx, end := context.WithCancel(t.Context())
		reserved := f.crowd(ctx, l, 4)
		f.Latency.Store(int64(20 * time.Millisecond))
		inFlight := f.crowd(ctx, l, 4)
		time.Sleep(10 * time.Millisecond)
		end()
		reserved.Wait()
		inFlight.Wait()
		f.Latency.Store(0)
		require.NoError(t, f.client.Flush(t.Context()))
		assert.LessOrEqual(t, f.delayOfNext(p), 100*time.Millisecond)
	})
}
