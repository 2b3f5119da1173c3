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
func inLease(t *testing.T, rate Rate, test func(t *testing.T, f *fixture, l *Limiter)) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(rate, WithLease(shortLease))
		f.Latency.Store(int64(500 * time.Microsecond))
		test(t, f, l)
	})
}

const shortLease = 10 * time.Millisecond

func TestLease_LastEighth_IsNotLeased(t *testing.T) {
	for _, rate := range []int64{800, 805} {
		inLease(t, Rate{Permits: rate, Interval: 10 * time.Second}, func(t *testing.T, f *fixture, l *Limiter) {
			eighth := (rate + 7) / 8
			for taken := int64(1); taken <= rate; taken++ {
				require.Equal(t, 1, f.CountGranted(l, 1, 20*time.Microsecond))
				require.GreaterOrEqual(t, f.Stored("{limiter}:value"), min(eighth, rate-taken), "%d are taken", taken)
			}
			f.RequireDenied(l, 1)
		})
	}
}

// TestLease_LimiterExpiresSoon_NothingIsLeased: a lease ends before its limiter, and lasts at most
// a sixteenth of the interval.
func TestLease_LimiterExpiresSoon_NothingIsLeased(t *testing.T) {
	inLease(t, Rate{Permits: 10_000, Interval: 10 * time.Second}, func(t *testing.T, f *fixture, l *Limiter) {
		f.CountGranted(l, 300, 30*time.Microsecond)
		_, err := l.Expire(t.Context(), shortLease)
		require.NoError(t, err)
		before := f.Scripts.Load()
		f.CountGranted(l, 10, 30*time.Microsecond)
		assert.Equal(t, int64(10), f.Scripts.Load()-before)
	})
	rate := Rate{Permits: 10_000, Interval: 15 * time.Millisecond}
	inLease(t, rate, func(t *testing.T, f *fixture, l *Limiter) {
		before := f.Scripts.Load()
		f.CountGranted(l, 100, 30*time.Microsecond)
		assert.Equal(t, int64(100), f.Scripts.Load()-before)
	})
}

func TestWithLease_InvalidDuration_IsRefused(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		for _, d := range []time.Duration{
			0, -shortLease, time.Microsecond, 1500 * time.Microsecond, time.Second + time.Millisecond,
		} {
			_, err := New(f.Conn, WithLease(d)).Limiter("limiter").TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, ErrInvalidOption)
			assert.ErrorContains(t, err, d.String())
		}
	})
}

func TestLease_DemandOfManyPermits_IsAtMostOneGrant(t *testing.T) {
	inLease(t, Rate{Permits: 1 << 50, Interval: 10 * time.Second}, func(t *testing.T, f *fixture, l *Limiter) {
		for range 10 {
			f.RequireGranted(l, 1<<31-1)
		}
		time.Sleep(time.Millisecond) // the next lease may be on its way
		start := time.Now()
		f.RequireGranted(l, 1<<20)
		assert.Zero(t, time.Since(start), "it was served by a lease")
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
	withRedis(t, func(t *testing.T, f *fixture) {
		const rate = 800
		l := f.limiter(Rate{Permits: rate, Interval: time.Second}, WithLease(50*time.Millisecond))
		f.Latency.Store(int64(300 * time.Microsecond))
		var uses []use
		take := func(l *Limiter, permits int64) {
			asked := time.Now().UnixMilli()
			ok, err := l.TryAcquire(t.Context(), permits)
			require.NoError(t, err)
			for range permits {
				if ok {
					uses = append(uses, use{asked, time.Now().UnixMilli()})
				}
			}
		}
		start := time.Now()
		for range 200 {
			time.Sleep(50 * time.Microsecond)
			take(l, 1)
		}
		for calls := f.Scripts.Load(); f.Scripts.Load() == calls; time.Sleep(time.Millisecond) {
			take(l, 1) // until the lease's end
		}
		others := New(f.QuickConn()).Limiter("limiter")
		rest := func() {
			free, err := others.AvailablePermits(t.Context())
			require.NoError(t, err)
			if free > 0 {
				take(others, free)
			}
		}
		for rest(); time.Since(start) < 1200*time.Millisecond; rest() {
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, worst(uses, 1000), rate)
		assert.Equal(t, 2*rate, len(uses), "and no later")
	})
}
