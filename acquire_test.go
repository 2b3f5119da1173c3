package rratelimiter

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestRelease_PrefetchesOfOthers_AreReleasedLast: the permits that another process has prefetched and not
// used return when its prefetch ends, whatever this process releases.
func TestRelease_PrefetchesOfOthers_AreReleasedLast(t *testing.T) {
	for name, ownPrefetch := range map[string]bool{"a plain grant": false, "a prefetch of its own": true} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 100, Interval: time.Hour})
			f.RequireGranted(l, 1)
			other := New(f.Conn)
			prefetch := f.prefetched(other, 20, time.Second/2)
			if ownPrefetch {
				f.prefetched(l.protocol.client, 30, time.Second)
			} else {
				f.RequireGranted(l, 30)
			}
			require.NoError(t, l.Release(t.Context(), 31))
			f.RequireAvailable(l, 80)
			assert.Equal(t, []string{prefetch}, f.members())
			require.NoError(t, other.Limiter("limiter").protocol.refund(t.Context(), 20, prefetch[:17], 20, ""))
			f.RequireAvailable(l, 100)
			prefetch = f.prefetched(other, 20, time.Second/2)
			f.RequireGranted(l, 1)
			require.NoError(t, l.Release(t.Context(), 5))
			f.RequireAvailable(l, 84)
			require.NoError(t, other.Limiter("limiter").protocol.refund(t.Context(), 20, prefetch[:17], 20, ""))
			f.RequireAvailable(l, 100)
		})
	}
}

// TestRelease_GrantsWithoutPermits_ReturnsThoseBehindThem: another client can write grants of 0
// permits, as Redisson does for a request for 0.
func TestRelease_GrantsWithoutPermits_ReturnsThoseBehindThem(t *testing.T) {
	for _, empty := range []int{255, 256, 257, 1000} {
		for _, ahead := range []time.Duration{0, time.Minute} { // as grants, and as prefetches
			withRedis(t, func(t *testing.T, f *fixture) {
				l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
				for i := range empty {
					f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().Add(ahead).UnixMilli()),
						memberOf(fmt.Sprintf("\x10%016d", i), 0)))
				}
				time.Sleep(time.Second)
				f.RequireGranted(l, 1)
				f.prefetched(l.protocol.client, 6, 2*ahead)
				require.NoError(t, l.Release(t.Context(), 3), "%d", empty)
				f.RequireAvailable(l, 6)
				assert.EqualValues(t, 4, f.sum(), "%d", empty)
				require.NoError(t, l.Release(t.Context(), maxPermits), "more than is taken")
				f.RequireAvailable(l, 10)
			})
		}
	}
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

// TestRefund_ReleaseCutTheGrant_RefundsTheRest: a refund returns no more than the grant still
// holds, whichever library has released.
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
		{1<<32 - 1, 0, 1<<32 - 1, map[string]int64{"b": 20}},
	} {
		for by, release := range map[string]func(f *fixture, l *Limiter){
			"Go":                     func(f *fixture, l *Limiter) { require.NoError(f, l.Release(f.Context(), test.released)) },
			"Redisson's main branch": func(f *fixture, _ *Limiter) { f.redissonShrinks(test.released) },
		} {
			runWithRedis(t, fmt.Sprint(by, " ", test.granted, " ", test.released), func(t *testing.T, f *fixture) {
				free := int64(maxPermits)
				l := f.limiter(Rate{Permits: free, Interval: time.Second})
				f.granted(l, "a", test.granted)
				time.Sleep(time.Millisecond)
				f.granted(l, "b", 20)
				release(f, l)
				require.NoError(t, f.refund(l, "a", test.refunded, test.granted))
				assert.Equal(t, test.kept, f.grants(), "%+v", test)
				for _, n := range test.kept {
					free -= n
				}
				f.RequireAvailable(l, free)
				f.Redis.Del("{limiter}:value")
				f.RequireAvailable(l, free)
			})
		}
	}
}

// TestRefund_ReleasesOfRedisson_FreeNoOtherPermits: a prefetch and a plain grant are refunded after releases of
// Redisson 4.7.0, which leave the grants, and of its main branch, in any order. Only what 4.7.0 has released is drift,
// and a count corrects it.
func TestRefund_ReleasesOfRedisson_FreeNoOtherPermits(t *testing.T) {
	for _, test := range []struct {
		releases        []int64 // below 0: of 4.7.0
		drift           int64
		prefetch, plain int64 // that the members hold after the releases
	}{
		{[]int64{25}, 0, 20, 25}, {[]int64{60}, 0, 10, 0}, {[]int64{70}, 0, 0, 0}, {[]int64{100}, 0, 0, 0},
		{[]int64{-25}, 25, 20, 50}, {[]int64{-25, 60}, 10, 10, 0}, {[]int64{60, -5}, 5, 10, 0},
		{[]int64{-30, 25, -30}, 45, 20, 25}, {[]int64{55, -10, 30}, 0, 0, 0},
	} {
		runWithRedis(t, fmt.Sprint(test.releases), func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 100, Interval: time.Hour})
			f.granted(l, "a", 50)
			prefetch := f.prefetched(l.protocol.client, 20, time.Second)
			synctest.Wait()
			for _, permits := range test.releases {
				if permits < 0 {
					f.redissonReleases(-permits)
				} else {
					f.redissonShrinks(permits)
				}
			}
			assert.Equal(t, test.drift, f.drift())
			require.NoError(t, l.protocol.refund(t.Context(), 15, prefetch[:17], 20, ""))
			assert.EqualValues(t, test.plain+max(0, test.prefetch-15), f.sum(), "the prefetch returns what it has")
			require.NoError(t, f.refund(l, "a", 30, 50))
			assert.EqualValues(t, max(0, test.plain-30)+max(0, test.prefetch-15), f.sum(), "in use")
			assert.LessOrEqual(t, f.drift(), test.drift)
			f.recount(l)
			assert.Zero(t, f.drift())
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
			refused := f.refuse(command)
			require.Error(t, f.refund(l, "b", 3, 5))
			require.Equal(t, 1, *refused)
			f.refuse("")
			time.Sleep(2 * time.Millisecond) // a deleted value
			assert.LessOrEqual(t, redistest.Available(t, l), int64(8))
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
		f.refuse("ZADD")
		require.ErrorContains(t, redistest.Err(l.TryAcquire(t.Context(), 2)), "NOPERM")
		f.refuse("")
		require.NoError(t, f.refund(l, "a", 1, 3))
		f.RequireAvailable(l, 8)
		assert.Zero(t, f.drift())
	})
}

// TestReceipt_CallersOfOneCall_EachRefundsItsOwn: their grants are one member. In a later window and without a
// rate, a refund changes nothing.
func TestReceipt_CallersOfOneCall_EachRefundsItsOwn(t *testing.T) {
	t.Parallel()
	const callers, others, rate, interval = 12, 300, 10_000, 10 * time.Second
	for name, opts := range map[string][]Option{
		"plain":                nil,
		"server time":          {WithServerTime()},
		"prefetch":             {WithPrefetch(100 * time.Millisecond)},
		"prefetch, their time": {WithPrefetch(100 * time.Millisecond), WithServerTime()},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: rate, Interval: interval}, opts...)
			other := New(f.QuickConn()).Limiter("limiter")
			f.fill(other, others, 1) // more than a page
			f.Latency.Store(int64(10 * time.Millisecond))
			receipts := make([]receipt.Receipt, callers)
			var all sync.WaitGroup
			for i := range receipts {
				all.Go(func() {
					var err error
					var result engine.Result
					ask := engine.Ask{Permits: int64(i + 1), Detail: true, Receipt: true}
					switch i % 3 {
					case 0:
						err = (*handle)(l).Try(t.Context(), ask, &result)
					case 1:
						_, err = (*handle)(l).Wait(t.Context(), ask, time.Now().Add(time.Minute), &result)
					default:
						_, err = (*handle)(l).Wait(t.Context(), ask, time.Time{}, &result)
					}
					assert.NoError(t, err)
					receipts[i] = receipt.Receipt{Permits: ask.Permits, Refund: result.Refund}
				})
				synctest.Wait()
			}
			all.Wait()
			f.Latency.Store(0)
			f.fill(other, others, 1) // a prefetch ends, too
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

			f.Redis.FlushAll() // and the rate is gone
			require.NoError(t, receipts[0].Refund(t.Context(), 1))
			assert.Empty(t, f.Redis.Keys())
		})
	}
}
