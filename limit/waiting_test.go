package limit

import (
	"context"
	"math"
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
	Smooth{Permits: 10, Interval: time.Second, Burst: ms},
}

// TestAcquire_Reservation_WaitsForItsTime: with one call at most.
func TestAcquire_Reservation_WaitsForItsTime(t *testing.T) {
	for _, p := range reservables {
		withRedis(t, func(b *fixture) {
			const callers = 50
			l := New(b.client, "name", p)
			start := time.Now()
			var mu sync.Mutex
			var at []time.Duration
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					assert.NoError(b, l.Acquire(b.Context(), 1))
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Since(start))
				})
			}
			all.Wait()
			for i, got := range at {
				want := time.Duration(i) * 100 * ms
				if _, smooth := p.(Smooth); smooth && i > 0 {
					want -= ms // was stored
				}
				assert.Equal(b, want, got, "%T: caller %d", p, i)
			}
			assert.LessOrEqual(b, b.Scripts.Load(), int64(callers), "calls")
		})
	}
}

// TestReserve_ManyCallers_ShareCalls: no call is long.
func TestReserve_ManyCallers_ShareCalls(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.client, "name", TokenBucket{1, 10, time.Second})
		must(b, l.Reserve, 1)
		b.Scripts.Store(0)
		b.Latency.Store(int64(10 * ms))
		const callers = 1000
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				_, err := l.Reserve(b.Context(), 1)
				assert.NoError(b, err)
			})
		}
		all.Wait()
		calls := b.Scripts.Load()
		assert.GreaterOrEqual(b, calls, int64(callers/256+1), "of 256 at most")
		assert.LessOrEqual(b, calls, int64(20))
	})
}

// TestAcquire_ContextEnds_CancelsItsReservation: at once, and the next caller gets the permits.
func TestAcquire_ContextEnds_CancelsItsReservation(t *testing.T) {
	for _, p := range reservables {
		withRedis(t, func(b *fixture) {
			l := New(b.client, "name", p)
			require.NoError(b, l.Acquire(b.Context(), 1))
			first := must(b, l.Reserve, 1)
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			start := time.Now()
			go func() { ended <- l.Acquire(ctx, 1) }()
			redistest.Pass(50 * ms)
			cancel()
			assert.ErrorIs(b, <-ended, context.Canceled)
			assert.Equal(b, 50*ms, time.Since(start))
			synctest.Wait()
			assert.Equal(b, 100*ms, must(b, l.Reserve, 1).Delay()-first.Delay(), "%T", p)
		})
	}
}

// TestReserve_CallerHasLeft_IsCancelled: whether its time would have been at once or later.
func TestReserve_CallerHasLeft_IsCancelled(t *testing.T) {
	for _, p := range []Policy{TokenBucket{3, 1, time.Hour}, LeakyBucket{3, 1, time.Hour},
		Smooth{Permits: 1, Interval: time.Hour, Burst: 3 * time.Hour}} {
		withRedis(t, func(b *fixture) {
			l := New(b.client, "name", p)
			for _, taken := range []int64{0, 3, 3} {
				if taken > 0 {
					must(b, l.Reserve, taken)
				}
				before := mustPeek(b, l)
				began := time.Now()
				b.Latency.Store(int64(10 * ms))
				ctx, cancel := context.WithCancel(b.Context())
				var all sync.WaitGroup
				all.Go(func() {
					if taken == 0 {
						assert.ErrorIs(b, l.Acquire(ctx, 2), context.Canceled)
						return
					}
					_, err := l.Reserve(ctx, 2)
					assert.ErrorIs(b, err, context.Canceled)
				})
				redistest.Pass(ms)
				cancel()
				all.Wait()
				b.Latency.Store(0)
				redistest.Pass(time.Second)
				passed := time.Since(began)
				before[0].RetryAfter = max(0, before[0].RetryAfter-passed)
				before[0].ResetAfter = max(0, before[0].ResetAfter-passed)
				assert.Equal(b, before, mustPeek(b, l), "%T, after %d", p, taken)
			}
		})
	}
}

// TestAcquire_SlowCallMissesTheTime_IsCancelled: the reservation is treated as one after the
// deadline. Its time counts from the reply, since the server dates it; a timeout counts from the call.
func TestAcquire_SlowCallMissesTheTime_IsCancelled(t *testing.T) {
	for _, p := range reservables {
		for name, call := range map[string]func(*Limiter, context.Context) error{
			"Reserve": func(l *Limiter, ctx context.Context) error { return errOf(l.Reserve(ctx, 1)) },
			"Acquire": func(l *Limiter, ctx context.Context) error { return l.Acquire(ctx, 1) },
			"TryAcquireWithin": func(l *Limiter, ctx context.Context) error {
				ok, err := l.TryAcquireWithin(context.WithoutCancel(ctx), 1, 120*ms)
				if err == nil && !ok {
					return context.DeadlineExceeded
				}
				return err
			},
		} {
			withRedis(t, func(b *fixture) {
				conn, latency := b.slowReplies()
				l := New(rratelimiter.New(conn, rratelimiter.WithServerTime()), "name", p)
				for range 2 { // Smooth's first costs nothing
					require.NoError(b, l.Acquire(b.Context(), 1))
				}
				start := time.Now()
				latency.Store(int64(50 * ms))
				ctx, cancel := context.WithTimeout(b.Context(), 120*ms)
				defer cancel()
				assert.ErrorIs(b, call(l, ctx), context.DeadlineExceeded, "%s, %T", name, p)
				assert.Equal(b, 50*ms, time.Since(start), "%s, %T", name, p)
				redistest.Pass(60 * ms)
				latency.Store(0)
				assert.Zero(b, must(b, l.Reserve, 1).delay, "%s, %T", name, p)
			})
		}
	}
}

// TestTryAcquireWithin_Reservation_WaitsForItsTime: or returns false at once if that is too late.
func TestTryAcquireWithin_Reservation_WaitsForItsTime(t *testing.T) {
	for _, p := range reservables {
		withRedis(t, func(b *fixture) {
			l := New(b.client, "name", p)
			require.NoError(b, l.Acquire(b.Context(), 1))
			start := time.Now()
			assert.False(b, mustWait(b, l, 1, 50*ms))
			assert.Zero(b, time.Since(start), "at once")
			assert.True(b, mustWait(b, l, 1, 100*ms), "%T", p)
			assert.InDelta(b, 100*ms, time.Since(start), float64(ms))

			b.Latency.Store(int64(time.Second))
			start = time.Now()
			_, err := l.TryAcquireWithin(b.Context(), 1, 100*ms)
			assert.ErrorIs(b, err, context.DeadlineExceeded)
			assert.ErrorContains(b, err, "has not answered")
			assert.Equal(b, 100*ms, time.Since(start))
		})
	}
}

// TestTryAcquireWithin_LongestTimeout_DoesNotOverflow: it is no shorter than others.
func TestTryAcquireWithin_LongestTimeout_DoesNotOverflow(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for _, p := range append(reservables, FixedWindow{1, 100 * ms, false}) {
			for range 2 {
				ok, err := New(b.client, "name", p).TryAcquireWithin(b.Context(), 1, math.MaxInt64)
				require.NoError(b, err, "%T", p)
				assert.True(b, ok, "%T", p)
			}
		}
	})
}

// TestAcquire_OneReplyIsSlow_KeepsTheOrder: the time of a reservation counts from when its call was
// dated, so callers of later calls do not overtake.
func TestAcquire_OneReplyIsSlow_KeepsTheOrder(t *testing.T) {
	for _, p := range perMinute(600) {
		withRedis(t, func(b *fixture) {
			conn, latency := b.slowReplies()
			l := New(rratelimiter.New(conn), "name", p)
			require.NoError(b, l.Acquire(b.Context(), 1))
			latency.Store(int64(400 * ms))
			var mu sync.Mutex
			var served []int
			var callers sync.WaitGroup
			for i := range 8 {
				callers.Go(func() {
					assert.NoError(b, l.Acquire(b.Context(), 1))
					mu.Lock()
					defer mu.Unlock()
					served = append(served, i)
				})
				synctest.Wait()
			}
			redistest.Pass(100 * ms)
			latency.Store(0)
			callers.Wait()
			assert.IsIncreasing(b, served, "%T", p)
		})
	}
}
