package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// TestLease_CallersLeaveDuringTheCall_PermitsAreLeased: permits for callers that left become part
// of the lease.
func TestLease_CallersLeaveDuringTheCall_PermitsAreLeased(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		b.leasing(l)
		require.NoError(b, b.client.Flush(b.Context()))
		taken := int64(300)
		for range 20 {
			ctx, cancel := context.WithCancel(b.Context())
			var callers sync.WaitGroup
			for i := range 40 {
				callers.Go(func() {
					ctx := ctx
					if i%2 == 0 {
						ctx = b.Context()
					}
					if ok, _ := l.TryAcquire(ctx, 1); ok {
						atomic.AddInt64(&taken, 1)
					}
				})
			}
			pass(200 * time.Microsecond)
			cancel()
			callers.Wait()
			require.NoError(b, b.client.Flush(b.Context()))
			pass(2 * time.Millisecond) // permits that are still on their way are released
		}
		require.Less(b, taken, int64(1100), "some have left")
		b.Free(l, 10_000-taken)
	})
}

func TestLease_ArrivesLate_IsReturned(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		require.Equal(b, 100, b.Often(l, 100, 50*time.Microsecond))
		b.Latency.Store(int64(70 * time.Millisecond))
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() { b.Take(l, 1) })
		}
		callers.Wait()
		b.Latency.Store(0)
		pass(200 * time.Millisecond)
		b.Free(l, 10_000-300)
	})
}

// TestLease_OldBurst_IsNoDemand: nor are the permits that the call itself grants.
func TestLease_OldBurst_IsNoDemand(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		b.leasing(l)
		pass(25 * time.Millisecond)
		b.Take(l, 100)
		assert.Equal(b, int64(9600), b.Stored("{limiter}:value"), "nothing is leased")
	})
}

// TestLease_ClockJumps_EndsByMonotonicTime: a jump by an hour grants at most the rate, in addition
// to permits that were taken or leased before.
func TestLease_ClockJumps_EndsByMonotonicTime(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		runWithRedis(t, name, func(b *fixture) {
			const rate = 2000
			var offset atomic.Int64
			clock := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
			l := b.limiter(rratelimiter.Rate{Permits: rate, Interval: 10 * time.Second},
				rratelimiter.WithLease(50*time.Millisecond), rratelimiter.WithClock(clock))
			b.Latency.Store(int64(300 * time.Microsecond))
			require.Equal(b, 1000, b.Often(l, 1000, 20*time.Microsecond))
			offset.Add(int64(jump))
			granted := b.Often(l, 3200, 20*time.Microsecond)
			if jump < 0 {
				assert.Equal(b, rate-1000, granted, "what was taken stays so")
			} else {
				assert.LessOrEqual(b, granted, rate+1000, "what was taken or leased before the jump is forgotten, once")
			}

			// At any time of the clock: if a limiter was deleted, its lease is used until the
			// end.
			changed := rratelimiter.Rate{Permits: 1_000_000, Interval: time.Hour}
			require.NoError(b, rratelimiter.New(b.QuickConn()).Limiter("limiter").SetRate(b.Context(), changed))
			require.Equal(b, 1000, b.Often(l, 1000, 20*time.Microsecond))
			_, err := rratelimiter.New(b.QuickConn()).Limiter("limiter").Delete(b.Context())
			require.NoError(b, err)
			offset.Add(int64(jump))
			start, last := time.Now(), time.Duration(0)
			for failed := 0; failed < 10; pass(100 * time.Microsecond) {
				asked := time.Since(start)
				if _, err := l.TryAcquire(b.Context(), 1); err == nil {
					last = asked
				} else {
					failed++
				}
			}
			assert.LessOrEqual(b, last, 50*time.Millisecond)
			assert.Positive(b, last)
		})
	}
}

func TestLease_CallersWait_AreServedInOrder(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 2000, Interval: time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		const together = 10
		served := make([]time.Time, 3000)
		var callers sync.WaitGroup
		for i := range served {
			callers.Go(func() {
				assert.NoError(b, l.Acquire(b.Context(), 1))
				served[i] = time.Now()
			})
			if i%together == together-1 {
				synctest.Wait()
				pass(200 * time.Microsecond)
			}
		}
		callers.Wait()
		for i := range len(served) - together {
			at := i - i%together + together
			require.False(b, served[at].Before(served[i]), "%d was served before %d", at, i)
		}
		assert.Less(b, b.Scripts.Load(), int64(1500), "calls")
	})
}

func TestLease_LimiterIsDeletedOrMoved_IsNotUsed(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, l *rratelimiter.Limiter) error{
		"Delete": func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.Delete(ctx)) },
		"Rename": func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Rename(ctx, "other") },
	} {
		inLease(t, rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
			b.leasing(l)
			require.NoError(b, change(b.Context(), l))
			_, err := l.TryAcquire(b.Context(), 1)
			require.ErrorIs(b, err, rratelimiter.ErrNotInitialized, name)
		})
	}
}
