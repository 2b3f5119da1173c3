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
	t.Parallel()
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

// TestTakeWithin_EachPolicy_HasTheNumbers after a wait, as Peek reports them, and if the permits cannot be free in
// time.
func TestTakeWithin_EachPolicy_HasTheNumbers(t *testing.T) {
	policies := []Policy{FixedWindow{10, time.Minute, false}, FixedWindow{10, time.Minute, true},
		SlidingWindow{10, time.Minute, 0}, SlidingLog{10, time.Minute}, TokenBucket{10, 10, time.Minute},
		InFlight{Permits: 10, Lease: time.Minute}}
	eachPolicy(t, policies, func(t *testing.T, f *fixture, p Policy) {
		l := New(f.client, "x", p)
		f.RequireGranted(l, 10)
		time.Sleep(time.Second)
		denied, err := l.TakeWithin(t.Context(), 1, 2*time.Millisecond)
		require.NoError(t, err)
		peeked := peekAll(t, l)[0]
		peeked.Allowed = false
		if _, held := p.(InFlight); held { // when a place returns is a guess
			assert.Positive(t, denied.RetryAfter)
			peeked.RetryAfter = denied.RetryAfter
		}
		assert.Equal(t, peeked, denied)

		d, err := l.TakeWithin(t.Context(), 1, time.Hour)
		require.NoError(t, err)
		want := peekAll(t, l)[0]
		want.Allowed, want.RetryAfter = true, 0
		assert.Equal(t, want, d)
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

// inLoops has callers wait for permits in loops, each time for at most a timeout. It returns the permits of a second,
// after a third of the time to begin with.
func inLoops(t *testing.T, lasts time.Duration, callers int, timeout time.Duration, l *Limiter) float64 {
	ctx, end := context.WithCancel(t.Context())
	time.AfterFunc(lasts, end)
	var mu sync.Mutex
	var from, last time.Time
	granted := 0
	var all sync.WaitGroup
	begin := time.Now().Add(lasts / 3)
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				if ok, _ := l.TryAcquireWithin(ctx, 1, timeout); !ok {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				mu.Lock()
				switch now := time.Now(); {
				case now.Before(begin):
				case from.IsZero():
					from = now
				case now.After(from):
					granted, last = granted+1, now
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return float64(granted) / last.Sub(from).Seconds()
}

// TestAcquire_LongLinks_KeepThePace: of waiters whose calls take longer than a permit, also in a queue that
// is longer than their timeouts.
func TestAcquire_LongLinks_KeepThePace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate    int64
		trip    time.Duration
		callers int
		timeout time.Duration
		delta   float64
		quick   int // seconds
	}{
		{50, 12, 8, time.Minute, 0.05, 1}, {50, 20, 8, time.Minute, 0.05, 1}, {1000, 20, 256, time.Minute, 0.05, 1},
		{1000, 100, 256, time.Minute, 0.05, 3}, {20_000, 6, 256, time.Minute, 0.05, 1},
		{200, 20, 256, time.Second, 0.2, 3}, // more callers than it serves in time
	} {
		for clock, opts := range map[string][]rratelimiter.Option{"host": nil, "server": {rratelimiter.WithServerTime()}} {
			eachPolicy(t, steady(test.rate), func(t *testing.T, f *fixture, p Policy) {
				f.Latency.Store(int64(test.trip * time.Millisecond))
				l := New(rratelimiter.New(f.Conn, opts...), "name", p)
				pace := inLoops(t, forSeconds(test.quick, 3), test.callers, test.timeout, l)
				assert.InDelta(t, 1, pace/float64(test.rate), test.delta, "%+v, time of the %s", test, clock)
			})
		}
	}
}

// TestAcquire_OneCallerInALoop_KeepsThePace: it does not wait when a permit comes free before it asks, so
// that a spread of the calls would cost it permits.
func TestAcquire_OneCallerInALoop_KeepsThePace(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{100, 1000} {
		eachPolicy(t, steady(rate), func(t *testing.T, f *fixture, p Policy) {
			f.Latency.Store(int64(30 * time.Microsecond))
			pace := inLoops(t, forSeconds(1, 3), 1, time.Minute, New(f.client, "name", p))
			assert.InDelta(t, 1, pace/float64(rate), 0.05, "%+v", p)
		})
	}
}
