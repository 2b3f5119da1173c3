package limit

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// steady returns the policies that grant one permit at once, and then so many in a second.
func steady(permits int64) []Policy {
	return []Policy{
		TokenBucket{1, permits, time.Second}, LeakyBucket{1, permits, time.Second},
		Smooth{Permits: permits, Interval: time.Second, Burst: time.Millisecond},
	}
}

// exact returns a Client whose waiters ask on time.
func (f *fixture) exact() *rratelimiter.Client {
	return rratelimiter.New(f.Conn, rratelimiter.WithWaitJitter(0))
}

// grantTimes has callers request a permit at the same moment, and returns when they get one, in order.
func grantTimes(t *testing.T, callers []*Limiter) (at []time.Duration) {
	start := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, l := range callers {
		all.Go(func() {
			assert.NoError(t, l.Acquire(t.Context(), 1))
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
		})
	}
	all.Wait()
	return at
}

// TestAcquire_CallsAreLate_KeepThePace: of a policy without a burst. A call of a waiter is late by its
// way to Redis and by its jitter.
func TestAcquire_CallsAreLate_KeepThePace(t *testing.T) {
	for trip, rates := range map[time.Duration][]int64{
		0: {1000}, time.Millisecond: {200}, 4 * time.Millisecond: {200, 1000},
	} {
		for _, rate := range rates {
			policies := append(steady(rate), Smooth{Permits: rate, Interval: time.Second, WarmUp: time.Millisecond},
				Smooth{Permits: rate, Interval: time.Second, WarmUp: 100 * time.Millisecond})
			eachPolicy(t, policies, func(t *testing.T, f *fixture, p Policy) {
				f.Latency.Store(int64(trip))
				l := New(rratelimiter.New(f.Conn, rratelimiter.WithServerTime()), "name", p)
				at := grantTimes(t, slices.Repeat([]*Limiter{l}, int(rate/2)))
				steady := at[rate/5:] // a Smooth is warm
				pace := float64(len(steady)-1) / (steady[len(steady)-1] - steady[0]).Seconds() / float64(rate)
				assert.InDelta(t, 1, pace, 0.05, "%+v, trip %v", p, trip)
			})
		}
	}
}

// TestAcquire_FullBucket_CountsFromTheCall: permits that came free while no caller waited are not
// granted on top of the capacity.
func TestAcquire_FullBucket_CountsFromTheCall(t *testing.T) {
	eachPolicy(t, steady(10), func(t *testing.T, f *fixture, p Policy) {
		l := New(f.exact(), "name", p)
		require.NoError(t, l.Acquire(t.Context(), 1))
		time.Sleep(105 * time.Millisecond)
		at := grantTimes(t, slices.Repeat([]*Limiter{l}, 3))
		assert.Zero(t, at[0])
		// A Smooth has stored a millisecond each time.
		assert.InDelta(t, 100*time.Millisecond, at[1], float64(2*time.Millisecond))
		assert.InDelta(t, 200*time.Millisecond, at[2], float64(2*time.Millisecond))
	})
}

// TestAcquire_LeakyBucket_IsEvenlySpaced: TryAcquire may fill the bucket at once, and waiters leave when
// all that was taken before has leaked.
func TestAcquire_LeakyBucket_IsEvenlySpaced(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.exact(), "name", LeakyBucket{10, 2, time.Second})
		assert.Equal(t, []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond},
			grantTimes(t, slices.Repeat([]*Limiter{l}, 4)))
		require.NoError(t, l.Reset(t.Context()))

		require.NoError(t, l.Acquire(t.Context(), 1))
		synctest.Wait()
		start := time.Now()
		assert.False(t, redistest.Result(t, l.TryAcquire, 10))
		assert.True(t, redistest.Result(t, l.TryAcquire, 9))
		assert.False(t, tryWithin(t, l, 1, 4*time.Second))
		assert.Zero(t, time.Since(start), "it cannot be served in time")
		require.NoError(t, l.Acquire(t.Context(), 10))
		assert.Equal(t, 5*time.Second, time.Since(start), "the level was 10")
	})
}

// TestWithDenialCache_LeakyBucketHasWaiters_OthersAreGranted: a caller that waits gets its permits
// later than one that does not.
func TestWithDenialCache_LeakyBucketHasWaiters_OthersAreGranted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(rratelimiter.New(f.Conn, rratelimiter.WithDenialCache(time.Minute)), "name",
			LeakyBucket{10, 1, time.Hour})
		require.NoError(t, l.Acquire(t.Context(), 1))
		ctx, leave := context.WithCancel(t.Context())
		var waiter sync.WaitGroup
		waiter.Go(func() { assert.ErrorIs(t, l.Acquire(ctx, 1), context.Canceled) })
		synctest.Wait()
		assert.True(t, redistest.Result(t, l.TryAcquire, 9))
		leave()
		waiter.Wait()
	})
}

// TestTryAcquireWithin_Bucket_WaitsForItsTime: or returns false at once if that is too late.
func TestTryAcquireWithin_Bucket_WaitsForItsTime(t *testing.T) {
	eachPolicy(t, steady(10), func(t *testing.T, f *fixture, p Policy) {
		l := New(f.exact(), "name", p)
		for range 2 { // Smooth's first costs nothing
			require.NoError(t, l.Acquire(t.Context(), 1))
		}
		start := time.Now()
		assert.False(t, tryWithin(t, l, 1, 50*time.Millisecond))
		assert.Zero(t, time.Since(start), "at once")
		assert.True(t, tryWithin(t, l, 1, 101*time.Millisecond))
		assert.InDelta(t, 100*time.Millisecond, time.Since(start), float64(time.Millisecond))

		f.Latency.Store(int64(time.Second))
		start = time.Now()
		_, err := l.TryAcquireWithin(t.Context(), 1, 100*time.Millisecond)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "has not answered")
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
	})
}

// TestTryAcquireWithin_LongestTimeout_DoesNotOverflow: it is no shorter than others.
func TestTryAcquireWithin_LongestTimeout_DoesNotOverflow(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		for _, p := range append(steady(10), FixedWindow{1, 100 * time.Millisecond, false}) {
			for range 2 {
				ok, err := New(f.client, "name", p).TryAcquireWithin(t.Context(), 1, math.MaxInt64)
				require.NoError(t, err, "%T", p)
				assert.True(t, ok, "%T", p)
			}
		}
	})
}

// TestAcquire_OneReplyIsSlow_KeepsTheOrder: callers of later calls do not overtake.
func TestAcquire_OneReplyIsSlow_KeepsTheOrder(t *testing.T) {
	eachPolicy(t, steady(10), func(t *testing.T, f *fixture, p Policy) {
		conn, latency := f.slowReplies()
		l := New(rratelimiter.New(conn), "name", p)
		require.NoError(t, l.Acquire(t.Context(), 1))
		latency.Store(int64(400 * time.Millisecond))
		var served [8]time.Time
		var callers sync.WaitGroup
		for i := range served {
			callers.Go(func() {
				assert.NoError(t, l.Acquire(t.Context(), 1))
				served[i] = time.Now()
			})
			synctest.Wait()
		}
		time.Sleep(100 * time.Millisecond)
		latency.Store(0)
		callers.Wait()
		assert.True(t, slices.IsSortedFunc(served[:], time.Time.Compare), "%v", served)
	})
}

// TestAcquire_LongRequestWaits_ShortOneDoesNotOvertake: on one Client.
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

// TestAcquire_SeveralProcessesWait_ShareCallsAndPermits: a permit costs at most a call per process, and
// the shares stay within a factor of three.
func TestAcquire_SeveralProcessesWait_ShareCallsAndPermits(t *testing.T) {
	eachPolicy(t, []Policy{TokenBucket{10, 50, time.Second}, LeakyBucket{1, 50, time.Second}},
		func(t *testing.T, f *fixture, p Policy) {
			const processes = 5
			ctx, end := context.WithTimeout(t.Context(), 4*time.Second)
			defer end()
			var shares [processes]int64
			var callers sync.WaitGroup
			for i := range shares {
				l := New(rratelimiter.New(f.Conn), "name", p)
				var mu sync.Mutex
				for range 5 {
					callers.Go(func() {
						for l.Acquire(ctx, 1) == nil {
							mu.Lock()
							shares[i]++
							mu.Unlock()
						}
					})
				}
			}
			callers.Wait()
			var granted int64
			for _, share := range shares {
				granted += share
			}
			assert.GreaterOrEqual(t, granted, int64(4*50*0.97))
			assert.LessOrEqual(t, f.Scripts.Load(), (granted+2)*processes)
			assert.LessOrEqual(t, slices.Max(shares[:]), 3*slices.Min(shares[:]), "%v", shares)
		})
}
