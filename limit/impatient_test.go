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
func (f *fixture) tenASecond(test func(p Policy, l *Limiter)) {
	f.Helper()
	for _, p := range perMinute(600) {
		f.Redis.FlushAll()
		l := New(f.client, "name", p)
		require.NoError(f, l.Acquire(f.Context(), 1))
		test(p, l)
	}
}

// TestAcquire_CallersOfTwoQueuesLeave_ReturnAll: the queue ends when its callers have reservations.
func TestAcquire_CallersOfTwoQueuesLeave_ReturnAll(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		f.tenASecond(func(p Policy, l *Limiter) {
			ctx, end := context.WithCancel(t.Context())
			callers := []*sync.WaitGroup{f.crowd(ctx, l, 3), f.crowd(ctx, l, 1)}
			end()
			for _, c := range callers {
				c.Wait()
			}
			synctest.Wait()
			assert.LessOrEqual(t, f.delayOfNext(p), 100*time.Millisecond, "%T", p)
		})
	})
}

// TestAcquire_CallersInFlightLeave_ReturnAll: with others, which have reservations already.
func TestAcquire_CallersInFlightLeave_ReturnAll(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		f.tenASecond(func(p Policy, l *Limiter) {
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
			assert.LessOrEqual(t, f.delayOfNext(p), 100*time.Millisecond, "%T", p)
		})
	})
}

// TestAcquire_CallerInFlightLeaves_NextOneGetsItsPlace: with a reservation behind one that is
// returned later, it would wait twice as long.
func TestAcquire_CallerInFlightLeaves_NextOneGetsItsPlace(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		f.tenASecond(func(p Policy, l *Limiter) {
			f.Latency.Store(int64(5 * time.Millisecond))
			ctx, leave := context.WithCancel(t.Context())
			left := f.crowd(ctx, l, 1)
			time.Sleep(2 * time.Millisecond)
			began := time.Now()
			next := f.crowd(t.Context(), l, 1)
			leave()
			left.Wait()
			next.Wait()
			f.Latency.Store(0)
			assert.LessOrEqual(t, time.Since(began), 150*time.Millisecond, "%T", p)
		})
	})
}

// TestFlush_CallerInFlightHasLeft_WaitsForItsPermits: the program can end then.
func TestFlush_CallerInFlightHasLeft_WaitsForItsPermits(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		f.tenASecond(func(p Policy, l *Limiter) {
			f.Latency.Store(int64(50 * time.Millisecond))
			ctx, leave := context.WithCancel(t.Context())
			left := f.crowd(ctx, l, 1)
			time.Sleep(10 * time.Millisecond)
			leave()
			left.Wait()
			began := time.Now()
			require.NoError(t, f.client.Flush(t.Context()))
			assert.GreaterOrEqual(t, time.Since(began), 90*time.Millisecond, "%T: the reply, and the permits", p)
			f.Latency.Store(0)
		})
	})
}

// TestAcquire_CallersOfTwoProcessesLeaveInTurn_KeepLittle: each has reserved behind the one before,
// which therefore returns nothing.
func TestAcquire_CallersOfTwoProcessesLeaveInTurn_KeepLittle(t *testing.T) {
	for _, p := range perMinute(10) {
		withRedis(t, func(t *testing.T, f *fixture) {
			processes := []*Limiter{New(f.client, "name", p), New(rratelimiter.New(f.Conn), "name", p)}
			require.NoError(t, processes[0].Acquire(t.Context(), 1))
			leave := func() {}
			for i := range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				caller := f.crowd(ctx, processes[i%2], 1)
				time.Sleep(10 * time.Millisecond)
				leave()
				leave = func() { cancel(); caller.Wait(); synctest.Wait() }
			}
			leave()
			assert.LessOrEqual(t, f.delayOfNext(p), 13*time.Second, "%T: a second, and one caller's", p)
		})
	}
}

// TestAcquire_ImpatientCallersOfTwoProcesses_UseTheRate: each of 20 gives up after 4 s and comes
// again.
func TestAcquire_ImpatientCallersOfTwoProcesses_UseTheRate(t *testing.T) {
	for _, p := range perMinute(10) {
		withRedis(t, func(t *testing.T, f *fixture) {
			root, end := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			var mu sync.Mutex
			served := 0
			for _, l := range []*Limiter{New(f.client, "name", p), New(rratelimiter.New(f.Conn), "name", p)} {
				for i := range 20 {
					callers.Go(func() {
						time.Sleep(time.Duration(i) * 200 * time.Millisecond)
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
			time.Sleep(2 * time.Minute)
			end()
			callers.Wait()
			synctest.Wait()
			assert.GreaterOrEqual(t, served, 20, "%T", p)
			assert.LessOrEqual(t, f.delayOfNext(p), 13*time.Second, "%T", p)
		})
	}
}

// TestAcquire_OthersTakeAllThatReturns_IsServed: they call TryAcquire, and keep a LeakyBucket full.
func TestAcquire_OthersTakeAllThatReturns_IsServed(t *testing.T) {
	for _, p := range []Policy{
		TokenBucket{10, 10, 10 * time.Second}, LeakyBucket{10, 10, 10 * time.Second},
		Smooth{Permits: 10, Interval: 10 * time.Second, Burst: 10 * time.Second},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
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
			assert.LessOrEqual(t, time.Since(began), 32*time.Second, "%T", p)
			cancel()
			others.Wait()
		})
	}
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
