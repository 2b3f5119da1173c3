package rratelimiter

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inLease runs a test with leases of 10 ms and calls of half a millisecond.
func inLease(t *testing.T, rate Rate, test func(b *fixture, l *Limiter)) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rate, WithLease(shortLease))
		b.Latency.Store(int64(500 * time.Microsecond))
		test(b, l)
	})
}

const shortLease = 10 * time.Millisecond

func TestLease_LastEighth_IsNotLeased(t *testing.T) {
	for _, rate := range []int64{800, 805} {
		inLease(t, Rate{Permits: rate, Interval: 10 * time.Second}, func(b *fixture, l *Limiter) {
			eighth := (rate + 7) / 8
			for taken := int64(1); taken <= rate; taken++ {
				require.Equal(b, 1, b.Often(l, 1, 20*time.Microsecond))
				require.GreaterOrEqual(b, b.Stored("{limiter}:value"), min(eighth, rate-taken), "%d are taken", taken)
			}
			b.Full(l, 1)
		})
	}
}

// TestLease_LimiterExpiresSoon_NothingIsLeased: a lease ends before its limiter, and lasts at most
// a sixteenth of the interval.
func TestLease_LimiterExpiresSoon_NothingIsLeased(t *testing.T) {
	inLease(t, Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *Limiter) {
		b.Often(l, 300, 30*time.Microsecond)
		_, err := l.Expire(b.Context(), shortLease)
		require.NoError(b, err)
		before := b.Scripts.Load()
		b.Often(l, 10, 30*time.Microsecond)
		assert.Equal(b, int64(10), b.Scripts.Load()-before)
	})
	rate := Rate{Permits: 10_000, Interval: 15 * time.Millisecond}
	inLease(t, rate, func(b *fixture, l *Limiter) {
		before := b.Scripts.Load()
		b.Often(l, 100, 30*time.Microsecond)
		assert.Equal(b, int64(100), b.Scripts.Load()-before)
	})
}

func TestWithLease_InvalidDuration_IsRefused(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for _, d := range []time.Duration{
			0, -shortLease, time.Microsecond, 1500 * time.Microsecond, time.Second + time.Millisecond,
		} {
			_, err := New(b.Conn, WithLease(d)).Limiter("limiter").TryAcquire(b.Context(), 1)
			require.ErrorIs(b, err, ErrInvalidOption)
			assert.ErrorContains(b, err, d.String())
		}
	})
}

func TestLease_DemandOfManyPermits_IsAtMostOneGrant(t *testing.T) {
	inLease(t, Rate{Permits: 1 << 50, Interval: 10 * time.Second}, func(b *fixture, l *Limiter) {
		for range 10 {
			b.Take(l, 1<<31-1)
		}
		pass(time.Millisecond) // the next lease may be on its way
		start := time.Now()
		b.Take(l, 1<<20)
		assert.Zero(b, time.Since(start), "it was served by a lease")
	})
}

// use is a permit that a caller was granted, in Unix milliseconds as in Redis: at some time between
// its request and its grant.
type use struct{ asked, granted int64 }

// worst returns the most uses that certainly lie in one window of so many milliseconds.
func worst(uses []use, interval int64) (most int) {
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.asked, b.asked) })
	for i, first := range uses {
		sure := 0
		for _, u := range uses[i:] {
			if u.asked >= first.asked+interval {
				break
			}
			if u.granted < first.asked+interval {
				sure++
			}
		}
		most = max(most, sure)
	}
	return most
}

// TestLease_UsedAtItsEnd_StaysTakenForAnInterval: another client takes permits in the millisecond
// of their return. It gets these an interval later, and no earlier.
func TestLease_UsedAtItsEnd_StaysTakenForAnInterval(t *testing.T) {
	withRedis(t, func(b *fixture) {
		const rate = 800
		l := b.limiter(Rate{Permits: rate, Interval: time.Second}, WithLease(50*time.Millisecond))
		b.Latency.Store(int64(300 * time.Microsecond))
		var uses []use
		take := func(l *Limiter, permits int64) {
			asked := time.Now().UnixMilli()
			ok, err := l.TryAcquire(b.Context(), permits)
			require.NoError(b, err)
			for range permits {
				if ok {
					uses = append(uses, use{asked, time.Now().UnixMilli()})
				}
			}
		}
		start := time.Now()
		for range 200 {
			pass(50 * time.Microsecond)
			take(l, 1)
		}
		for calls := b.Scripts.Load(); b.Scripts.Load() == calls; pass(time.Millisecond) {
			take(l, 1) // until the lease's end
		}
		others := New(b.QuickConn()).Limiter("limiter")
		rest := func() {
			free, err := others.AvailablePermits(b.Context())
			require.NoError(b, err)
			if free > 0 {
				take(others, free)
			}
		}
		for rest(); time.Since(start) < 1200*time.Millisecond; rest() {
			pass(time.Millisecond)
		}
		assert.LessOrEqual(b, worst(uses, 1000), rate)
		assert.Equal(b, 2*rate, len(uses), "and no later")
	})
}
