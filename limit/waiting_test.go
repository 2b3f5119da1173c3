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
		assert.True(t, tryWithin(t, l, 1, math.MaxInt64), "the longest timeout is no shorter")
	})
}
