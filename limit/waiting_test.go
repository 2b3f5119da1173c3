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

// reservables are policies that grant one permit at once, and then one every 100 ms.
var reservables = []Policy{
	TokenBucket{1, 10, time.Second}, LeakyBucket{1, 10, time.Second},
	Smooth{Permits: 10, Interval: time.Second, Burst: time.Millisecond},
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

// TestAcquire_Reservation_WaitsForItsTime: with one call at most.
func TestAcquire_Reservation_WaitsForItsTime(t *testing.T) {
	eachPolicy(t, reservables, func(t *testing.T, f *fixture, p Policy) {
		const callers = 50
		l := New(f.client, "name", p)
		for i, got := range grantTimes(t, slices.Repeat([]*Limiter{l}, callers)) {
			want := time.Duration(i) * 100 * time.Millisecond
			if _, smooth := p.(Smooth); smooth && i > 0 {
				want -= time.Millisecond // was stored
			}
			assert.Equal(t, want, got, "caller %d", i)
		}
		assert.LessOrEqual(t, f.Scripts.Load(), int64(callers), "calls")
	})
}

// TestReserve_ManyCallers_ShareCalls: no call is long.
func TestReserve_ManyCallers_ShareCalls(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", TokenBucket{1, 10, time.Second})
		redistest.Result(t, l.Reserve, 1)
		f.Scripts.Store(0)
		f.Latency.Store(int64(10 * time.Millisecond))
		const callers = 1000
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				_, err := l.Reserve(t.Context(), 1)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		calls := f.Scripts.Load()
		assert.GreaterOrEqual(t, calls, int64(callers/256+1), "of 256 at most")
		assert.LessOrEqual(t, calls, int64(20))
	})
}

// TestReserve_CallerHasLeft_IsCancelled: whether its time would have been at once or later.
func TestReserve_CallerHasLeft_IsCancelled(t *testing.T) {
	eachPolicy(t, []Policy{TokenBucket{3, 1, time.Hour}, LeakyBucket{3, 1, time.Hour},
		Smooth{Permits: 1, Interval: time.Hour, Burst: 3 * time.Hour}}, func(t *testing.T, f *fixture, p Policy) {
		l := New(f.client, "name", p)
		for _, taken := range []int64{0, 3, 3} {
			if taken > 0 {
				redistest.Result(t, l.Reserve, taken)
			}
			before := peekAll(t, l)
			began := time.Now()
			f.Latency.Store(int64(10 * time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				if taken == 0 {
					assert.ErrorIs(t, l.Acquire(ctx, 2), context.Canceled)
					return
				}
				_, err := l.Reserve(ctx, 2)
				assert.ErrorIs(t, err, context.Canceled)
			})
			time.Sleep(time.Millisecond)
			cancel()
			all.Wait()
			f.Latency.Store(0)
			time.Sleep(time.Second)
			passed := time.Since(began)
			before[0].RetryAfter = max(0, before[0].RetryAfter-passed)
			before[0].ResetAfter = max(0, before[0].ResetAfter-passed)
			assert.Equal(t, before, peekAll(t, l), "after %d", taken)
		}
	})
}

// TestAcquire_SlowCallMissesTheTime_IsCancelled: the reservation is treated as one after the
// deadline. Its time counts from the reply, since the server dates it; a timeout counts from the call.
func TestAcquire_SlowCallMissesTheTime_IsCancelled(t *testing.T) {
	for _, p := range reservables {
		for name, call := range map[string]func(*Limiter, context.Context) error{
			"Reserve": func(l *Limiter, ctx context.Context) error { return redistest.Err(l.Reserve(ctx, 1)) },
			"Acquire": func(l *Limiter, ctx context.Context) error { return l.Acquire(ctx, 1) },
			"TryAcquireWithin": func(l *Limiter, ctx context.Context) error {
				ok, err := l.TryAcquireWithin(context.WithoutCancel(ctx), 1, 120*time.Millisecond)
				if err == nil && !ok {
					return context.DeadlineExceeded
				}
				return err
			},
		} {
			withRedis(t, func(t *testing.T, f *fixture) {
				conn, latency := f.slowReplies()
				l := New(rratelimiter.New(conn, rratelimiter.WithServerTime()), "name", p)
				for range 2 { // Smooth's first costs nothing
					require.NoError(t, l.Acquire(t.Context(), 1))
				}
				start := time.Now()
				latency.Store(int64(50 * time.Millisecond))
				ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
				defer cancel()
				assert.ErrorIs(t, call(l, ctx), context.DeadlineExceeded, "%s, %T", name, p)
				assert.Equal(t, 50*time.Millisecond, time.Since(start), "%s, %T", name, p)
				time.Sleep(60 * time.Millisecond)
				latency.Store(0)
				assert.Zero(t, redistest.Result(t, l.Reserve, 1).delay, "%s, %T", name, p)
			})
		}
	}
}

// TestTryAcquireWithin_Reservation_WaitsForItsTime: or returns false at once if that is too late.
func TestTryAcquireWithin_Reservation_WaitsForItsTime(t *testing.T) {
	eachPolicy(t, reservables, func(t *testing.T, f *fixture, p Policy) {
		l := New(f.client, "name", p)
		require.NoError(t, l.Acquire(t.Context(), 1))
		start := time.Now()
		assert.False(t, tryWithin(t, l, 1, 50*time.Millisecond))
		assert.Zero(t, time.Since(start), "at once")
		assert.True(t, tryWithin(t, l, 1, 100*time.Millisecond))
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
		for _, p := range append(reservables, FixedWindow{1, 100 * time.Millisecond, false}) {
			for range 2 {
				ok, err := New(f.client, "name", p).TryAcquireWithin(t.Context(), 1, math.MaxInt64)
				require.NoError(t, err, "%T", p)
				assert.True(t, ok, "%T", p)
			}
		}
	})
}

// TestAcquire_OneReplyIsSlow_KeepsTheOrder: the time of a reservation counts from when its call was
// dated, so callers of later calls do not overtake.
func TestAcquire_OneReplyIsSlow_KeepsTheOrder(t *testing.T) {
	eachPolicy(t, perMinute(600), func(t *testing.T, f *fixture, p Policy) {
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
