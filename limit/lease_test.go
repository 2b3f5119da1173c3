package limit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// inLease runs a test with leases of 10 ms and calls that take half a millisecond.
func inLease(t *testing.T, policies []Policy, test func(b *redistest.Fixture, l *Limiter)) {
	redistest.Run(t, func(b *redistest.Fixture) {
		l := New(rratelimiter.New(b.Conn, rratelimiter.WithLease(10*time.Millisecond)), "name", policies...)
		mustPeek(b, l)
		b.Latency.Store(int64(500 * time.Microsecond))
		test(b, l)
	})
}

// TestLease_Windows_CountTheirPermits: leased permits count in the window in which they are used,
// and unused ones are released.
func TestLease_Windows_CountTheirPermits(t *testing.T) {
	for name, policies := range map[string][]Policy{
		"FixedWindow": {FixedWindow{100_000, time.Hour, false}},
		"Aligned":     {FixedWindow{100_000, time.Hour, true}},
		"Calendar":    {Calendar{100_000, Day, nil}},
		"two at once": {FixedWindow{200_000, time.Hour, false}, Calendar{100_000, Day, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			inLease(t, policies, func(b *redistest.Fixture, l *Limiter) {
				require.Equal(b, 500, b.Often(l, 500, 20*time.Microsecond))
				before := b.Scripts.Load()
				require.Equal(b, 5000, b.Often(l, 5000, 20*time.Microsecond))
				assert.LessOrEqual(b, b.Scripts.Load()-before, int64(30), "calls in a tenth of a second")
				d := must(b, l.Take, 1)
				assert.InDelta(b, 100_000-5501, d.Remaining, 300, "leases may return at this time")
				redistest.Pass(50 * time.Millisecond)
				for i, d := range mustPeek(b, l) {
					assert.Equal(b, policies[i].most()-5501, d.Remaining)
				}
			})
		})
	}
}

// TestTakeEach_Lease_IsGrantedFromMemory: a lease for calls of TakeEach serves calls of TakeEach.
// Limiters that are opened and joined for each request share it, as those of the middleware.
func TestTakeEach_Lease_IsGrantedFromMemory(t *testing.T) {
	policies := []Policy{FixedWindow{200_000, time.Hour, false}, Calendar{100_000, Day, nil}}
	inLease(t, policies, func(b *redistest.Fixture, _ *Limiter) {
		client := rratelimiter.New(b.Conn, rratelimiter.WithLease(10*ms))
		before := b.Scripts.Load()
		for taken := int64(1); taken <= 5000; taken++ {
			redistest.Pass(20 * time.Microsecond)
			each := must(b, Join(New(client, "a", policies[0]), New(client, "b", policies[1])).TakeEach, 1)
			require.Len(b, each, 2)
			for i, d := range each {
				require.True(b, d.Allowed)
				require.Equal(b, policies[i].most(), d.Limit)
				require.InDelta(b, policies[i].most()-taken, d.Remaining, 300, "leases may return at this time")
				require.Positive(b, d.ResetAfter)
			}
			require.LessOrEqual(b, each[0].ResetAfter, time.Hour)
		}
		assert.Less(b, b.Scripts.Load()-before, int64(60))
		redistest.Pass(50 * time.Millisecond)
	})
}

// TestLease_WindowEnds_LeaseEnds: permits that are used in a window were counted in it.
func TestLease_WindowEnds_LeaseEnds(t *testing.T) {
	const permits = 1000
	inLease(t, []Policy{FixedWindow{permits, 200 * time.Millisecond, true}}, func(b *redistest.Fixture, l *Limiter) {
		used := make(map[int64]int)
		for range 5 {
			// The call of a lease is in flight when the window ends. The next lease is used up.
			redistest.Pass(time.Until(time.Now().Truncate(400 * time.Millisecond).Add(550 * time.Millisecond)))
			for range 2000 {
				redistest.Pass(100 * time.Microsecond)
				asked := time.Now().UnixMilli() / 200
				ok := must(b, l.TryAcquire, 1)
				if now := time.Now().UnixMilli() / 200; ok && now == asked {
					used[now]++
				}
			}
		}
		for window, n := range used {
			assert.LessOrEqual(b, n, permits, "%d", window)
		}
		assert.Contains(b, slices.Collect(maps.Values(used)), permits, "no window is full")
	})
}

// TestLease_AnotherClockAhead_EndsWithinTheSkew: a client whose clock is ahead opens the next
// window and takes all of it. Only permits that are leased then are used on top, and only until the
// window ends by the clock of their client.
func TestLease_AnotherClockAhead_EndsWithinTheSkew(t *testing.T) {
	const permits, interval, skew = 100_000, 1600 * time.Millisecond, 8 * time.Millisecond
	for name, test := range map[string]struct {
		option rratelimiter.Option
		within time.Duration
	}{
		"host clocks":        {rratelimiter.WithClock(func() time.Time { return time.Now().Add(skew) }), skew},
		"the server's clock": {rratelimiter.WithServerTime(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			policy := FixedWindow{permits, interval, true}
			inLease(t, []Policy{policy}, func(b *redistest.Fixture, l *Limiter) {
				end := time.Now().Truncate(interval).Add(2 * interval)
				if test.within == 0 {
					leasing := rratelimiter.New(b.Conn, rratelimiter.WithLease(10*time.Millisecond), test.option)
					l = New(leasing, "name", policy)
				}
				redistest.Pass(time.Until(end) - 100*ms)
				b.Often(l, 500, 20*time.Microsecond) // and permits are leased
				for time.Until(end) > test.within+time.Millisecond {
					b.Often(l, 1, 20*time.Microsecond)
				}
				ahead := New(rratelimiter.New(b.Conn, test.option), "name", policy)
				var last time.Duration // after the window was opened
				uses := 0
				var using sync.WaitGroup
				opened := make(chan time.Time)
				using.Go(func() {
					since := <-opened
					for time.Since(since) < 3*skew {
						if b.Often(l, 1, 20*time.Microsecond) > 0 {
							last, uses = time.Since(since), uses+1
						}
					}
				})
				for {
					redistest.Pass(20 * time.Microsecond)
					if ok, err := ahead.TryAcquire(b.Context(), permits); err != nil || ok {
						require.NoError(b, err)
						break
					}
				}
				opened <- time.Now()
				using.Wait()
				assert.LessOrEqual(b, last, test.within)
				assert.Equal(b, test.within > 0, uses > 0, "%d uses", uses)
			})
		})
	}
}

// TestLease_BucketsAndLogs_LeaseNothing: a bucket would be refilled before the leased permits are
// used. Logs and cells keep the latest time that they have seen.
func TestLease_BucketsAndLogs_LeaseNothing(t *testing.T) {
	for _, p := range []Policy{
		TokenBucket{100_000, 100_000, time.Hour}, LeakyBucket{100_000, 100_000, time.Hour}, SlidingLog{100_000, time.Hour},
		SlidingWindow{100_000, time.Hour, 0}, Smooth{Permits: 1_000_000_000, Interval: time.Second},
	} {
		t.Run(fmt.Sprintf("%T", p), func(t *testing.T) {
			inLease(t, []Policy{p, FixedWindow{100_000, time.Hour, false}}, func(b *redistest.Fixture, l *Limiter) {
				before := b.Scripts.Load()
				require.Equal(b, 200, b.Often(l, 200, 20*time.Microsecond))
				assert.Equal(b, int64(200), b.Scripts.Load()-before)
			})
		})
	}
}

// TestLease_ClientChangesTheLimiter_IsReleasedFirst: unused permits are free before the change.
func TestLease_ClientChangesTheLimiter_IsReleasedFirst(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, l *Limiter) error{
		"Release": func(ctx context.Context, l *Limiter) error { return l.Release(ctx, 1) },
		"Charge":  func(ctx context.Context, l *Limiter) error { return errOf(l.Charge(ctx, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			inLease(t, []Policy{FixedWindow{100_000, time.Hour, false}}, func(b *redistest.Fixture, l *Limiter) {
				require.Equal(b, 500, b.Often(l, 500, 20*time.Microsecond))
				require.NoError(b, change(b.Context(), l))
				assert.InDelta(b, 100_000-500, mustPeek(b, l)[0].Remaining, 1)
			})
		})
	}
}

// TestLease_RequestIsDenied_NothingIsLeased: a call that denies takes nothing.
func TestLease_RequestIsDenied_NothingIsLeased(t *testing.T) {
	inLease(t, []Policy{FixedWindow{1000, time.Hour, false}}, func(b *redistest.Fixture, l *Limiter) {
		require.Equal(b, 300, b.Often(l, 300, 20*time.Microsecond))
		before := mustPeek(b, l)[0].Remaining
		for range 3 {
			assert.False(b, must(b, l.TryAcquire, 1000))
			assert.Equal(b, before, mustPeek(b, l)[0].Remaining)
		}
	})
}

// TestReset_JoinWithLeasesOfMovingSlot_TakesNoLongerThanOfOne: the leases of all members are released
// together.
func TestReset_JoinWithLeasesOfMovingSlot_TakesNoLongerThanOfOne(t *testing.T) {
	redistest.Run(t, func(b *redistest.Fixture) {
		client := rratelimiter.New(b.Conn, rratelimiter.WithLease(time.Second))
		var members []Joinable
		for i := range 5 {
			l := New(client, fmt.Sprint("{t}", i), FixedWindow{1000, time.Hour, false})
			require.Equal(b, 100, b.Often(l, 100, 20*time.Microsecond))
			members = append(members, l)
		}
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		begin := time.Now()
		assert.ErrorContains(b, Join(members...).Reset(b.Context()), "TRYAGAIN")
		assert.LessOrEqual(b, time.Since(begin), 2*255*ms, "the releases, then the call")
		b.Redis.SetError("")
		redistest.Pass(2 * time.Minute)
	})
}
