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

// tenASecond returns the policies with reservations that grant a permit every 100 ms. They have
// granted one.
func (b *fixture) tenASecond(test func(p Policy, l *Limiter)) {
	b.Helper()
	for _, p := range perMinute(600) {
		b.Redis.FlushAll()
		l := New(b.client, "name", p)
		require.NoError(b, l.Acquire(b.Context(), 1))
		test(p, l)
	}
}

// TestAcquire_CallersOfTwoQueuesLeave_ReturnAll: the queue ends when its callers have reservations.
func TestAcquire_CallersOfTwoQueuesLeave_ReturnAll(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.tenASecond(func(p Policy, l *Limiter) {
			ctx, end := context.WithCancel(b.Context())
			callers := []*sync.WaitGroup{b.crowd(ctx, l, 3), b.crowd(ctx, l, 1)}
			end()
			for _, c := range callers {
				c.Wait()
			}
			synctest.Wait()
			assert.LessOrEqual(b, b.delayOfNext(p), 100*ms, "%T", p)
		})
	})
}

// TestAcquire_CallersInFlightLeave_ReturnAll: with others, which have reservations already.
func TestAcquire_CallersInFlightLeave_ReturnAll(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.tenASecond(func(p Policy, l *Limiter) {
			ctx, end := context.WithCancel(b.Context())
			reserved := b.crowd(ctx, l, 4)
			b.Latency.Store(int64(20 * ms))
			inFlight := b.crowd(ctx, l, 4)
			redistest.Pass(10 * ms)
			end()
			reserved.Wait()
			inFlight.Wait()
			b.Latency.Store(0)
			require.NoError(b, b.client.Flush(b.Context()))
			assert.LessOrEqual(b, b.delayOfNext(p), 100*ms, "%T", p)
		})
	})
}

// TestAcquire_CallerInFlightLeaves_NextOneGetsItsPlace: with a reservation behind one that is
// returned later, it would wait twice as long.
func TestAcquire_CallerInFlightLeaves_NextOneGetsItsPlace(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.tenASecond(func(p Policy, l *Limiter) {
			b.Latency.Store(int64(5 * ms))
			ctx, leave := context.WithCancel(b.Context())
			left := b.crowd(ctx, l, 1)
			redistest.Pass(2 * ms)
			began := time.Now()
			next := b.crowd(b.Context(), l, 1)
			leave()
			left.Wait()
			next.Wait()
			b.Latency.Store(0)
			assert.LessOrEqual(b, time.Since(began), 150*ms, "%T", p)
		})
	})
}

// TestFlush_CallerInFlightHasLeft_WaitsForItsPermits: the program can end then.
func TestFlush_CallerInFlightHasLeft_WaitsForItsPermits(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.tenASecond(func(p Policy, l *Limiter) {
			b.Latency.Store(int64(50 * ms))
			ctx, leave := context.WithCancel(b.Context())
			left := b.crowd(ctx, l, 1)
			redistest.Pass(10 * ms)
			leave()
			left.Wait()
			began := time.Now()
			require.NoError(b, b.client.Flush(b.Context()))
			assert.GreaterOrEqual(b, time.Since(began), 90*ms, "%T: the reply, and the permits", p)
			b.Latency.Store(0)
		})
	})
}

// TestAcquire_CallersOfTwoProcessesLeaveInTurn_KeepLittle: each has reserved behind the one before,
// which therefore returns nothing.
func TestAcquire_CallersOfTwoProcessesLeaveInTurn_KeepLittle(t *testing.T) {
	for _, p := range perMinute(10) {
		withRedis(t, func(b *fixture) {
			processes := []*Limiter{New(b.client, "name", p), New(rratelimiter.New(b.Conn), "name", p)}
			require.NoError(b, processes[0].Acquire(b.Context(), 1))
			leave := func() {}
			for i := range 100 {
				ctx, cancel := context.WithCancel(b.Context())
				caller := b.crowd(ctx, processes[i%2], 1)
				redistest.Pass(10 * ms)
				leave()
				leave = func() { cancel(); caller.Wait(); synctest.Wait() }
			}
			leave()
			assert.LessOrEqual(b, b.delayOfNext(p), 13*time.Second, "%T: a second, and one caller's", p)
		})
	}
}

// TestAcquire_ImpatientCallersOfTwoProcesses_UseTheRate: each of 20 gives up after 4 s and comes
// again.
func TestAcquire_ImpatientCallersOfTwoProcesses_UseTheRate(t *testing.T) {
	for _, p := range perMinute(10) {
		withRedis(t, func(b *fixture) {
			root, end := context.WithCancel(b.Context())
			var callers sync.WaitGroup
			var mu sync.Mutex
			served := 0
			for _, l := range []*Limiter{New(b.client, "name", p), New(rratelimiter.New(b.Conn), "name", p)} {
				for i := range 20 {
					callers.Go(func() {
						redistest.Pass(time.Duration(i) * 200 * ms)
						for root.Err() == nil {
							ctx, leave := context.WithCancel(root)
							stop := time.AfterFunc(4*time.Second, leave)
							if l.Acquire(ctx, 1) == nil {
								mu.Lock()
								served++
								mu.Unlock()
							}
							stop.Stop()
							leave()
						}
					})
				}
			}
			redistest.Pass(2 * time.Minute)
			end()
			callers.Wait()
			synctest.Wait()
			assert.GreaterOrEqual(b, served, 20, "%T", p)
			assert.LessOrEqual(b, b.delayOfNext(p), 13*time.Second, "%T", p)
		})
	}
}

// TestAcquire_OthersTakeAllThatReturns_IsServed: they call TryAcquire, and keep a LeakyBucket full.
func TestAcquire_OthersTakeAllThatReturns_IsServed(t *testing.T) {
	for _, p := range []Policy{
		TokenBucket{10, 10, 10 * time.Second}, LeakyBucket{10, 10, 10 * time.Second},
		Smooth{Permits: 10, Interval: 10 * time.Second, Burst: 10 * time.Second},
	} {
		withRedis(t, func(b *fixture) {
			l := New(b.client, "name", p)
			ctx, cancel := context.WithCancel(b.Context())
			var callers, others sync.WaitGroup
			others.Go(func() {
				for ctx.Err() == nil {
					must(b, New(rratelimiter.New(b.Conn), "name", p).TryAcquire, 1)
					redistest.Pass(20 * ms)
				}
			})
			redistest.Pass(100 * ms)
			began := time.Now()
			for range 3 {
				callers.Go(func() { assert.NoError(b, l.Acquire(b.Context(), 10)) })
			}
			callers.Wait()
			assert.LessOrEqual(b, time.Since(began), 32*time.Second, "%T", p)
			cancel()
			others.Wait()
		})
	}
}

// TestAcquire_LaterThanAnyReservation_MakesFewCalls: the permits return after the longest delay.
func TestAcquire_LaterThanAnyReservation_MakesFewCalls(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.client, "name", TokenBucket{1 << 32, 1, time.Hour})
		require.True(b, must(b, l.TryAcquire, 1<<32-1))
		ctx, end := context.WithCancel(b.Context())
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() { assert.ErrorIs(b, l.Acquire(ctx, 1<<32-1), context.Canceled) })
		}
		redistest.Pass(time.Minute)
		assert.Less(b, b.Scripts.Load(), int64(20))
		end()
		callers.Wait()
	})
}
