package engine_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

const shortLease = 10 * time.Millisecond

// inLease runs a test with leases of 10 ms and calls of half a millisecond. It requires that no
// state is left.
func inLease(
	t *testing.T, rate rratelimiter.Rate, test func(b *fixture, l *rratelimiter.Limiter), opts ...rratelimiter.Option,
) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rate, append(opts, rratelimiter.WithLease(shortLease))...)
		b.Latency.Store(int64(500 * time.Microsecond))
		test(b, l)
		pass(100 * time.Millisecond)
		synctest.Wait()
		b.idle(b.client)
	})
}

func TestLease_ManyCalls_NeedNoRedis(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 1_000_000, Interval: 10 * time.Second}
	inLease(t, rate, func(b *fixture, l *rratelimiter.Limiter) {
		require.Equal(b, 1000, b.Often(l, 1000, 20*time.Microsecond))
		before := b.Scripts.Load()
		start := time.Now()
		require.Equal(b, 5000, b.Often(l, 5000, 20*time.Microsecond))
		assert.Equal(b, 100*time.Millisecond, time.Since(start), "no caller waits for Redis")
		assert.LessOrEqual(b, b.Scripts.Load()-before, int64(30), "calls in a tenth of a second")

		d, err := l.Take(b.Context(), 1)
		require.NoError(b, err)
		assert.True(b, d.Allowed)
		assert.Equal(b, int64(1_000_000), d.Limit)
		assert.InDelta(b, 1_000_000-6001, d.Remaining, 200, "what is given back at this moment is not known")
		assert.InDelta(b, 10*time.Second+shortLease, d.ResetAfter, float64(shortLease))

		pass(50 * time.Millisecond)
		b.Free(l, 1_000_000-6001)
	})
}

// TestLease_LongOneIsUsedUp_NextIsLarger: long before the end of the first.
func TestLease_LongOneIsUsedUp_NextIsLarger(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 1_000_000, Interval: time.Hour}, rratelimiter.WithLease(time.Second))
		b.Latency.Store(int64(500 * time.Microsecond))
		before := b.Scripts.Load()
		require.Equal(b, 10_000, b.Often(l, 10_000, time.Microsecond))
		assert.Less(b, b.Scripts.Load()-before, int64(40))
		pass(3 * time.Second)
		b.Free(l, 990_000)
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

func TestLease_Uses_NoWindowHoldsMoreThanTheRate(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		runWithRedis(t, fmt.Sprint(seed), func(b *fixture) {
			const rate = 400
			b.limiter(rratelimiter.Rate{Permits: rate, Interval: time.Second})
			b.Latency.Store(int64(300 * time.Microsecond))
			var mu sync.Mutex
			var uses []use
			var callers sync.WaitGroup
			start := time.Now()
			for client := range uint64(2) {
				l := rratelimiter.New(b.Conn, rratelimiter.WithLease(50*time.Millisecond)).Limiter("limiter")
				callers.Go(func() {
					random := rand.New(rand.NewPCG(seed, client))
					for time.Since(start) < 2500*time.Millisecond {
						burst, pause := 1+random.IntN(120), time.Duration(random.IntN(1000))*time.Microsecond
						for range burst {
							pass(pause)
							asked := time.Now()
							ok, err := l.TryAcquire(b.Context(), 1)
							if err != nil {
								b.Error(err)
								return
							}
							if !ok {
								break
							}
							mu.Lock()
							uses = append(uses, use{asked.UnixMilli(), time.Now().UnixMilli()})
							mu.Unlock()
						}
						pass(time.Duration(1+random.IntN(60)) * time.Millisecond)
					}
				})
			}
			callers.Wait()
			pass(time.Second)
			assert.LessOrEqual(b, worst(uses, 1000), rate)
			assert.Greater(b, len(uses), 2*rate, "in two intervals and a half")
		})
	}
}

// TestLease_UsedAtItsEnd_StaysTakenForAnInterval: another client takes permits in the millisecond
// of their return. It gets these an interval later, and no earlier.
func TestLease_UsedAtItsEnd_StaysTakenForAnInterval(t *testing.T) {
	withRedis(t, func(b *fixture) {
		const rate = 800
		l := b.limiter(rratelimiter.Rate{Permits: rate, Interval: time.Second}, rratelimiter.WithLease(50*time.Millisecond))
		b.Latency.Store(int64(300 * time.Microsecond))
		var uses []use
		take := func(l *rratelimiter.Limiter, permits int64) {
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
		others := rratelimiter.New(b.QuickConn()).Limiter("limiter")
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

// TestLease_FlushOrChange_EndsEarly: unused permits return, as they do at the end of the lease.
func TestLease_FlushOrChange_EndsEarly(t *testing.T) {
	for name, change := range map[string]func(b *fixture, l *rratelimiter.Limiter) error{
		"Flush": func(b *fixture, _ *rratelimiter.Limiter) error { return b.client.Flush(b.Context()) },
		"Release": func(b *fixture, l *rratelimiter.Limiter) error {
			if err := l.Release(b.Context(), 1); err != nil {
				return err
			}
			// Another Client takes the released permit, so that as many are free as in the other cases.
			_, err := rratelimiter.New(b.Conn).Limiter("limiter").TryAcquire(b.Context(), 1)
			return err
		},
		"SetRate": func(b *fixture, l *rratelimiter.Limiter) error {
			rate := rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second}
			return l.SetRate(b.Context(), rate, rratelimiter.KeepState())
		},
		"the end": func(*fixture, *rratelimiter.Limiter) error { pass(shortLease + time.Millisecond); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inLease(t, rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second},
				func(b *fixture, l *rratelimiter.Limiter) {
					granted := int64(b.Often(l, 300, 30*time.Microsecond))
					require.Equal(b, int64(300), granted)
					free, err := rratelimiter.New(b.QuickConn()).Limiter("limiter").AvailablePermits(b.Context())
					require.NoError(b, err)
					require.Less(b, free, 10_000-granted, "something is leased")
					require.NoError(b, change(b, l))
					b.Free(l, 10_000-granted)
				})
		})
	}
}

// TestLease_LimiterExpiresSoon_NothingIsLeased: a lease ends before its limiter, and lasts at most
// a sixteenth of the interval.
func TestLease_LimiterExpiresSoon_NothingIsLeased(t *testing.T) {
	inLease(t, rratelimiter.Rate{Permits: 10_000, Interval: 10 * time.Second}, func(b *fixture, l *rratelimiter.Limiter) {
		b.Often(l, 300, 30*time.Microsecond)
		_, err := l.Expire(b.Context(), shortLease)
		require.NoError(b, err)
		before := b.Scripts.Load()
		b.Often(l, 10, 30*time.Microsecond)
		assert.Equal(b, int64(10), b.Scripts.Load()-before)
	})
	rate := rratelimiter.Rate{Permits: 10_000, Interval: 15 * time.Millisecond}
	inLease(t, rate, func(b *fixture, l *rratelimiter.Limiter) {
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
			_, err := rratelimiter.New(b.Conn, rratelimiter.WithLease(d)).Limiter("limiter").TryAcquire(b.Context(), 1)
			require.ErrorIs(b, err, rratelimiter.ErrInvalidOption)
			assert.ErrorContains(b, err, d.String())
		}
	})
}
