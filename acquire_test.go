package rratelimiter

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// leased grants permits as a lease that ends after d, with the lease ID of a Client.
func (f *fixture) leased(c *Client, permits int64, d time.Duration) (member string) {
	f.Helper()
	member = c.member(permits, true)
	f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().Add(d).UnixMilli()), member))
	f.RequireNoError(f.Redis.Incr("{limiter}:value", -int(permits)))
	return member
}

// TestRelease_LeasesOfOthers_AreReleasedLast: the permits that another process has leased and not
// used return when its lease ends, whatever this process releases.
func TestRelease_LeasesOfOthers_AreReleasedLast(t *testing.T) {
	for name, ownLease := range map[string]bool{"a plain grant": false, "a lease of its own": true} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 100, Interval: time.Hour})
			f.RequireGranted(l, 1)
			other := New(f.Conn)
			lease := f.leased(other, 20, time.Second/2)
			if ownLease {
				f.leased(l.wire.client, 30, time.Second)
			} else {
				f.RequireGranted(l, 30)
			}
			require.NoError(t, l.Release(t.Context(), 31))
			f.RequireAvailable(l, 80)
			score, err := f.Redis.ZScore("{limiter}:permits", lease)
			require.NoError(t, err, "the other process's lease is there")
			require.NotZero(t, score)
			require.NoError(t, other.Limiter("limiter").wire.refund(t.Context(), 20, lease[:17], 20, ""))
			f.RequireAvailable(l, 100)

			lease = f.leased(other, 20, time.Second/2)
			f.RequireGranted(l, 1)
			require.NoError(t, l.Release(t.Context(), 5))
			f.RequireAvailable(l, 84)
			require.NoError(t, other.Limiter("limiter").wire.refund(t.Context(), 20, lease[:17], 20, ""))
			f.RequireAvailable(l, 100)
		})
	}
}

// TestAcquire_PermitsLeasedByOthers_WaitsForTheLeaseToEnd: the wait is not an interval longer.
func TestAcquire_PermitsLeasedByOthers_WaitsForTheLeaseToEnd(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		const interval = 10 * time.Second
		l := f.limiter(Rate{Permits: 100, Interval: interval})
		f.RequireGranted(l, 40)
		other := New(f.Conn).Limiter("limiter")
		lease := f.leased(other.wire.client, 60, 600*time.Millisecond)
		d := f.decision(l, 50)
		assert.False(t, d.Allowed)
		assert.Equal(t, 650*time.Millisecond, d.RetryAfter)
		go func() {
			time.Sleep(590 * time.Millisecond)
			assert.NoError(t, other.wire.refund(t.Context(), 60, lease[:17], 60, ""))
		}()
		// Unused permits return sooner than RetryAfter.
		f.RequireTrue(l.TryAcquireWithin(t.Context(), 50, 620*time.Millisecond))

		// A lease that is used up returns an interval later.
		f.leased(other.wire.client, 10, 600*time.Millisecond)
		d = f.decision(l, 5)
		assert.Equal(t, 650*time.Millisecond, d.RetryAfter)
		time.Sleep(650 * time.Millisecond)
		d = f.decision(l, 5)
		assert.False(t, d.Allowed)
		assert.Greater(t, d.RetryAfter, 8*time.Second)
	})
}

// TestRelease_GrantsWithoutPermits_ReturnsThoseBehindThem: another client can write grants of 0
// permits, as Redisson does for a request for 0.
func TestRelease_GrantsWithoutPermits_ReturnsThoseBehindThem(t *testing.T) {
	for _, empty := range []int{255, 256, 257, 1000} {
		for _, ahead := range []time.Duration{0, time.Minute} { // as grants, and as leases
			withRedis(t, func(t *testing.T, f *fixture) {
				l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
				for i := range empty {
					f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().Add(ahead).UnixMilli()),
						memberOf(fmt.Sprintf("\x10%016d", i), 0)))
				}
				time.Sleep(time.Second)
				f.RequireGranted(l, 1)
				f.leased(l.wire.client, 6, 2*ahead)
				require.NoError(t, l.Release(t.Context(), 3), "%d", empty)
				f.RequireAvailable(l, 6)
				sum := int64(0)
				for _, permits := range f.grants() {
					sum += permits
				}
				assert.EqualValues(t, 4, sum, "%d", empty)
			})
		}
	}
}

// TestRelease_BesideDrift_RemovesItsPermitsOnly: another program has lowered the rate and kept the grants.
func TestRelease_BesideDrift_RemovesItsPermitsOnly(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1000, Interval: 10 * time.Second})
		f.fill(l, 500, 1)
		f.setRate(100)
		require.NoError(t, l.Release(t.Context(), 200), "more than the rate")
		assert.EqualValues(t, 300, f.sum(), "in use")
		require.NoError(t, l.Release(t.Context(), 300))
		assert.Zero(t, f.sum(), "in use")
		f.setRate(1000)
		f.fill(l, 500, 1)
		f.setRate(600)
		require.NoError(t, l.Release(t.Context(), 300))
		assert.EqualValues(t, 200, f.sum(), "in use")
		f.recount(l)
		f.RequireAvailable(l, 400)
		time.Sleep(10 * time.Second)
		f.RequireGranted(l, 12)
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Release(t.Context(), 2))
		assert.Empty(t, f.members(), "all have expired")
	})
}

func TestRelease_Fails_ExpiredGrantsAreCounted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: 10 * time.Second})
		f.RequireGranted(l, 4)
		time.Sleep(5 * time.Second)
		f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()-1), "abc"))
		f.RequireGranted(l, 5)
		time.Sleep(5 * time.Second)
		require.ErrorAs(t, l.Release(t.Context(), 1), new(*StateError))
		f.RequireAvailable(l, 5)
	})
}

// refund refunds some permits of a grant of so many.
func (f *fixture) refund(l *Limiter, letter string, permits, of int64) error {
	rest := ""
	if of > permits {
		rest = member(letter, of-permits)
	}
	_, err := f.run(refundScript, l, f.nowText(), fmt.Sprint(permits), member(letter, of), rest, "")
	return err
}

func TestRefund_GrantHasJustExpired_ReturnsNothing(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		f.granted(l, "a", 7)
		time.Sleep(time.Second - time.Millisecond)
		f.RequireGranted(l, 1)
		time.Sleep(time.Millisecond)
		require.NoError(t, f.refund(l, "a", 1, 7))
		f.RequireAvailable(l, 9)
	})
}

func TestRefund_RateIsGone_ReturnsNothing(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		slot := receipt.Collect(t.Context())
		f.RequireTrue(l.TryAcquire(slot, 3))
		f.Redis.FlushAll()
		assert.NoError(t, slot.Of(3).Refund(t.Context(), 2))
		assert.Empty(t, f.Redis.Keys())
	})
}

func TestRefund_WholeGrant_LeavesNothing(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1 << 53, Interval: time.Hour})
		taken := withReceipt(f, "TryAcquire", l, engine.MaxPermits)
		require.NoError(t, taken.Refund(t.Context(), engine.MaxPermits))
		f.RequireAvailable(l, 1<<53)
		assert.Empty(t, f.members())
	})
}

func TestTryAcquire_CallersShareACall_EachHasItsAnswer(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		f.Latency.Store(int64(10 * time.Millisecond))
		before := f.Scripts.Load()
		granted, errs := redistest.Crowd(20, func(int) (bool, error) { return l.TryAcquire(t.Context(), 1) })
		require.NoError(t, errors.Join(errs...))
		assert.Equal(t, append(slices.Repeat([]bool{true}, 10), slices.Repeat([]bool{false}, 10)...), granted)
		assert.EqualValues(t, 3, f.Scripts.Load()-before)
	})
}

// TestRefund_ReleaseCutTheGrant_RefundsTheRest: a refund returns no more than the grant still
// holds.
func TestRefund_ReleaseCutTheGrant_RefundsTheRest(t *testing.T) {
	for _, test := range []struct {
		granted, released, refunded int64
		kept                        map[string]int64
	}{
		{10, 0, 2, map[string]int64{"a": 8, "b": 20}},
		{10, 0, 10, map[string]int64{"b": 20}},
		{10, 3, 2, map[string]int64{"a": 5, "b": 20}},
		{10, 3, 7, map[string]int64{"b": 20}},
		{10, 3, 10, map[string]int64{"b": 20}},
		{10, 9, 4, map[string]int64{"b": 20}},
		{10, 10, 4, map[string]int64{"b": 20}},
		{10, 15, 4, map[string]int64{"b": 15}},
		// The count of a member has four bytes.
		{1<<16 + 300, 5, 290, map[string]int64{"a": 1<<16 + 5, "b": 20}},
		{1<<24 + 1<<16 + 300, 5, 290, map[string]int64{"a": 1<<24 + 1<<16 + 5, "b": 20}},
		{1<<32 - 1, 5, 290, map[string]int64{"a": 1<<32 - 296, "b": 20}},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1 << 40, Interval: time.Second})
			f.granted(l, "a", test.granted)
			time.Sleep(time.Millisecond)
			f.granted(l, "b", 20)
			require.NoError(t, l.Release(t.Context(), test.released))
			require.NoError(t, f.refund(l, "a", test.refunded, test.granted))
			assert.Equal(t, test.kept, f.grants(), "%+v", test)
			free := int64(1 << 40)
			for _, n := range test.kept {
				free -= n
			}
			f.RequireAvailable(l, free)
			f.Redis.Del("{limiter}:value")
			f.RequireAvailable(l, free)
		})
	}
}

// TestRefund_CommandIsNotPermitted_FreesNothing: whichever command fails, no permit is free that is
// taken.
func TestRefund_CommandIsNotPermitted_FreesNothing(t *testing.T) {
	for _, command := range []string{"HMGET", "GET", "PTTL", "ZRANGE", "ZSCORE", "SET", "ZADD", "ZREM", "ZCOUNT",
		"ZCARD", "ZREMRANGEBYRANK", "PERSIST"} {
		runWithRedis(t, command, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Second})
			f.granted(l, "a", 2)
			time.Sleep(time.Second / 2)
			f.granted(l, "b", 5)
			time.Sleep(time.Second / 2)
			if command == "PERSIST" { // it removes the TTL of another program
				f.Redis.SetTTL("{limiter}:permits", time.Hour)
			}
			refused := f.Reply(command, "", func(peer *server.Peer, _ []string) {
				peer.WriteError("NOPERM this user has no permissions to run the command")
			})
			require.Error(t, f.refund(l, "b", 3, 5))
			require.Equal(t, 1, *refused)
			f.Reply("", "none", nil)
			time.Sleep(2 * time.Millisecond) // a deleted value
			free, err := l.AvailablePermits(t.Context())
			require.NoError(t, err)
			assert.LessOrEqual(t, free, int64(8))
			f.RequireGranted(l, 1)
			time.Sleep(time.Second / 2)
			f.RequireAvailable(l, 9)
			f.RequireGranted(l, 9)
			f.RequireDenied(l, 1)
		})
	}
}

// TestAcquireScript_SetIsNotPermitted_NextCallCounts: a refund at the same moment keeps nothing of the
// value that the refused call has written.
func TestAcquireScript_SetIsNotPermitted_NextCallCounts(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		f.granted(l, "a", 3)
		f.Reply("ZADD", "", func(peer *server.Peer, _ []string) { peer.WriteError("NOPERM") })
		require.ErrorContains(t, redistest.Err(l.TryAcquire(t.Context(), 2)), "NOPERM")
		f.Reply("none", "", nil)
		require.NoError(t, f.refund(l, "a", 1, 3))
		f.RequireAvailable(l, 8)
		assert.Zero(t, f.drift())
	})
}

// TestAcquireScript_GrantsOfOneMillisecond_ReturnTogether: for every byte of a member's permits.
func TestAcquireScript_GrantsOfOneMillisecond_ReturnTogether(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		const rate = 1 << 40
		l := f.limiter(Rate{Permits: rate, Interval: time.Minute})
		sum := int64(0)
		for i, n := range []int64{1, 0x100, 0x10000, 0x1000000, 0x01020304, 0xfffffffe} {
			f.granted(l, string(rune('a'+i)), n)
			sum += n
		}
		time.Sleep(time.Second)
		f.granted(l, "z", 500)
		want := fmt.Sprintf("0 %d %d 60000 0 n 59000 %d 60000 500", rate-sum-500, int64(rate), sum)
		assert.Equal(t, want, f.ask(l, "w", fmt.Sprint(int64(rate), "*1")))
		f.Redis.Del("{limiter}:value")
		f.RequireAvailable(l, rate-sum-500)
		f.RequireGranted(l, 1)
		f.RequireAvailable(l, rate-sum-501)
		require.NoError(t, l.SetRate(t.Context(), Rate{Permits: rate, Interval: time.Minute}, KeepState()))
		f.RequireAvailable(l, rate-sum-501)
		require.NoError(t, l.Release(t.Context(), 0x1010101+0x01020304))
		f.RequireAvailable(l, rate-sum-501+0x1010101+0x01020304)
		time.Sleep(59 * time.Second)
		f.RequireAvailable(l, rate-501)
		f.granted(l, "y", 1) // its call does not correct drift
		f.RequireAvailable(l, rate-502)
	})
}

// asks are the calls that request permits.
var asks = []string{"TryAcquire", "TryAcquireWithin", "Acquire"}

// withReceipt takes permits of a limiter, and returns the receipt.
func withReceipt(f *fixture, ask string, l *Limiter, permits int64) receipt.Receipt {
	slot := receipt.Collect(f.Context())
	assert.NoError(f, everyCallWith(l, permits, Rate{})[ask](slot))
	taken := slot.Of(permits)
	assert.NotNil(f, taken.Refund)
	return taken
}

// TestReceipt_CallersOfOneCall_EachRefundsItsOwn: their grants are one member. In a later window, a
// refund changes nothing.
func TestReceipt_CallersOfOneCall_EachRefundsItsOwn(t *testing.T) {
	const callers, others, rate, interval = 12, 300, 10_000, 10 * time.Second
	for name, opts := range map[string][]Option{
		"plain":             nil,
		"server time":       {WithServerTime()},
		"lease":             {WithLease(100 * time.Millisecond)},
		"lease, their time": {WithLease(100 * time.Millisecond), WithServerTime()},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: rate, Interval: interval}, opts...)
			other := New(f.QuickConn()).Limiter("limiter")
			f.fill(other, others, 1) // more than a page
			f.Latency.Store(int64(10 * time.Millisecond))
			receipts := make([]receipt.Receipt, callers)
			var all sync.WaitGroup
			for i := range receipts {
				all.Go(func() { receipts[i] = withReceipt(f, asks[i%len(asks)], l, int64(i+1)) })
				synctest.Wait()
			}
			all.Wait()
			f.Latency.Store(0)
			f.fill(other, others, 1) // a lease ends, too
			for i, r := range receipts {
				if i%2 == 0 {
					all.Go(func() { assert.NoError(t, r.Refund(t.Context(), r.Permits)) })
				}
			}
			all.Wait()
			f.RequireAvailable(other, rate-2*others-(2+4+6+8+10+12))
			require.NoError(t, receipts[1].Refund(t.Context(), 1), "a part")
			f.RequireAvailable(other, rate-2*others-(2+4+6+8+10+12)+1)

			time.Sleep(interval + time.Second)
			f.RequireGranted(other, rate)
			for _, r := range receipts {
				require.NoError(t, r.Refund(t.Context(), r.Permits))
			}
			f.RequireAvailable(other, 0)
		})
	}
}

// TestReceipt_LeaseServes_RefundsToRedis: the lease stays, and all of its permits return by its end.
func TestReceipt_LeaseServes_RefundsToRedis(t *testing.T) {
	for _, ask := range asks {
		runWithRedis(t, ask, func(t *testing.T, f *fixture) {
			const rate = 1000
			l := f.limiter(Rate{Permits: rate, Interval: time.Minute}, WithLease(time.Second))
			other := New(f.QuickConn()).Limiter("limiter")
			for range 40 {
				f.RequireGranted(l, 1)
				time.Sleep(time.Millisecond)
			}
			calls := f.Scripts.Load()
			first, second := withReceipt(f, ask, l, 2), withReceipt(f, ask, l, 1)
			require.Equal(t, calls, f.Scripts.Load(), "granted from a lease")
			before, err := other.AvailablePermits(t.Context())
			require.NoError(t, err)
			require.NoError(t, first.Refund(t.Context(), 2))
			f.RequireAvailable(other, before+2)
			calls = f.Scripts.Load()
			f.RequireGranted(l, 1)
			require.Equal(t, calls, f.Scripts.Load(), "the lease stays")
			time.Sleep(2 * time.Second)
			f.RequireAvailable(other, rate-42)
			require.NoError(t, second.Refund(t.Context(), 1))
			f.RequireAvailable(other, rate-41)
		})
	}
}
