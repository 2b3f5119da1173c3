package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// leasing makes a Client lease: callers take 300 permits in 9 ms.
func (b *fixture) leasing(l *rratelimiter.Limiter) {
	b.Helper()
	require.Equal(b, 300, b.Often(l, 300, 30*time.Microsecond))
}

func TestLease_LastEighth_IsNotLeased(t *testing.T) {
	for _, rate := range []int64{800, 805} {
		inLease(t, rratelimiter.Rate{Permits: rate, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
			eighth := (rate + 7) / 8
			for taken := int64(1); taken <= rate; taken++ {
				require.Equal(b, 1, b.Often(l, 1, 20*time.Microsecond))
				require.GreaterOrEqual(b, b.Stored("{limiter}:value"), min(eighth, rate-taken), "%d are taken", taken)
			}
			b.Full(l, 1)
		})
	}
}

// acquireSoon takes permits with each call, within 5 ms.
var acquireSoon = map[string]func(ctx context.Context, l *rratelimiter.Limiter, permits int64) (bool, error){
	"TryAcquire": func(ctx context.Context, l *rratelimiter.Limiter, permits int64) (bool, error) {
		return l.TryAcquire(ctx, permits)
	},
	"Take": func(ctx context.Context, l *rratelimiter.Limiter, permits int64) (bool, error) {
		d, err := l.Take(ctx, permits)
		return d.Allowed, err
	},
	"TryAcquireWithin": func(ctx context.Context, l *rratelimiter.Limiter, permits int64) (bool, error) {
		return l.TryAcquireWithin(ctx, permits, 5*time.Millisecond)
	},
	"Acquire": func(ctx context.Context, l *rratelimiter.Limiter, permits int64) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		err := l.Acquire(ctx, permits)
		return err == nil, err
	},
}

// TestLease_OthersReleaseMeanwhile_LargeRequestUsesBoth: the reply that denies it reports
// the free permits, not the lease.
func TestLease_OthersReleaseMeanwhile_LargeRequestUsesBoth(t *testing.T) {
	for name, acquire := range acquireSoon {
		for kind, opts := range map[string][]rratelimiter.Option{
			"": nil, ", denials remembered": {rratelimiter.WithDenialCache(time.Hour)},
		} {
			t.Run(name+kind, func(t *testing.T) {
				inLease(t, rratelimiter.Rate{Permits: 1000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
					other := rratelimiter.New(b.QuickConn()).Limiter("limiter")
					b.Take(other, 400)
					b.leasing(l)
					before := b.Stored("{limiter}:value")
					leased := 1000 - 400 - 300 - before
					require.Positive(b, leased)
					require.NoError(b, other.Release(b.Context(), 400))
					granted, err := acquire(b.Context(), l, before+400+leased)
					require.NoError(b, err)
					assert.True(b, granted)
					pass(20 * time.Millisecond)
					b.Free(l, 0)
				}, opts...)
			})
		}
	}
}

func TestLease_RequestExceedsBoth_LeaseStays(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 1000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		b.leasing(l)
		before := b.Stored("{limiter}:value")
		b.Full(l, 701)
		assert.Equal(b, before, b.Stored("{limiter}:value"))
	})
}

// TestTryAcquireWithin_TimeoutDuringARelease_IsDenied: Redis has denied the request before, and the
// release might have served it.
func TestTryAcquireWithin_TimeoutDuringARelease_IsDenied(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 100, Interval: time.Hour}, rratelimiter.WithLease(time.Second))
		for range 20 {
			b.Take(l, 1)
		}
		free := b.Stored("{limiter}:value")
		leased := 80 - free
		require.Positive(b, leased)
		b.Take(rratelimiter.New(b.QuickConn()).Limiter("limiter"), free-1)
		b.Latency.Store(int64(100 * time.Millisecond))
		granted, err := l.TryAcquireWithin(b.Context(), leased+1, 150*time.Millisecond)
		require.NoError(b, err)
		assert.False(b, granted)
		pass(2 * time.Minute)
	})
}

// TestLease_Remaining_CountsLeasedPermits: of all leases, and in the call that fetches one.
func TestLease_Remaining_CountsLeasedPermits(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 100_000, Interval: time.Hour}, rratelimiter.WithLease(100*time.Millisecond))
		for taken := int64(1); taken <= 2000; taken++ {
			pass(20 * time.Microsecond)
			d, err := l.Take(b.Context(), 1)
			require.NoError(b, err)
			require.Equal(b, 100_000-taken, d.Remaining, "%d are taken", taken)
		}
	})
}

// TestLease_RedisGrantsSince_RemainingCountsIt: a request for more than is leased, and the next one
// that is leased.
func TestLease_RedisGrantsSince_RemainingCountsIt(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 1000, Interval: time.Hour}, rratelimiter.WithLease(time.Second))
		taken := int64(0)
		for _, permits := range []int64{1, 20, 20, 5, 820, 1, 1} {
			pass(time.Millisecond)
			d, err := l.Take(b.Context(), permits)
			require.NoError(b, err)
			taken += permits
			require.Equal(b, 1000-taken, d.Remaining, "%d are taken", taken)
		}
		pass(time.Minute)
	})
}

// TestFlush_RedisFails_ReturnsTheError: the permits stay taken for the interval.
func TestFlush_RedisFails_ReturnsTheError(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		b.leasing(l)
		b.Redis.SetError("LOADING Redis is loading")
		err := b.client.Flush(b.Context())
		require.ErrorContains(b, err, "LOADING")
		require.ErrorContains(b, err, `"limiter"`)
		b.Redis.SetError("")
		require.NoError(b, b.client.Flush(b.Context()), "nothing is leased any more")
	})
}

// TestFlush_CallsUnderWay_WaitsForThem: a program that closes its connection after Flush loses no
// permits.
func TestFlush_CallsUnderWay_WaitsForThem(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 1_000_000, Interval: 10 * time.Second}
	inLease(t, rate, func(b *fixture, l *rratelimiter.Limiter) {
		free := int64(1_000_000)
		for times := 100; times < 200; times++ {
			free -= int64(b.Often(l, times, 30*time.Microsecond))
			require.NoError(b, b.client.Flush(b.Context()))
			sent := b.Sent.Load()
			pass(5 * time.Millisecond)
			require.Equal(b, sent, b.Sent.Load(), "calls that come after it")
			require.Equal(b, free, b.Stored("{limiter}:value"))
		}
	})
}

func TestLease_DemandOfManyPermits_IsAtMostOneGrant(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 1 << 50, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		for range 10 {
			b.Take(l, 1<<31-1)
		}
		pass(time.Millisecond) // the next lease may be on its way
		start := time.Now()
		b.Take(l, 1<<20)
		assert.Zero(b, time.Since(start), "it was served by a lease")
	})
}
