package limit

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// withReceipt takes permits by one of these calls, and returns the receipt.
func withReceipt(t testing.TB, l *Limiter, call string, permits int64) receipt.Receipt {
	t.Helper()
	slot := receipt.Collect(t.Context())
	require.NoError(t, takingCalls[call](slot, l, permits))
	taken := slot.Of(permits)
	require.NotNil(t, taken.Refund, "%s has left no receipt", call)
	return taken
}

// joinedLimiters opens each policy alone and in a Join with a limiter of Redisson's layout.
func joinedLimiters(t testing.TB, client *rratelimiter.Client, p Policy, interval time.Duration) map[string]*Limiter {
	shared := client.Limiter("{name}:shared")
	require.NoError(t, shared.SetRate(t.Context(), rratelimiter.Rate{Permits: 1000, Interval: interval}))
	alone := New(client, "{name}:policy", p)
	return map[string]*Limiter{"alone": alone, "joined": Join(alone, shared), "joined, shared first": Join(shared, alone)}
}

// TestReceipt_SameWindow_RefundsItsPermits: in parts too, and if others have taken permits since.
func TestReceipt_SameWindow_RefundsItsPermits(t *testing.T) {
	for _, p := range everyPolicy {
		for call := range takingCalls {
			for _, kind := range []string{"alone", "joined", "joined, shared first"} {
				quick := call == "Take" || kind == "alone" && (p == models[0].ten || p == tenBucket)
				if !quick && redistest.Deep(0, 1) == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%T, %s, %s", p, call, kind), func(t *testing.T) {
					withRedis(t, func(t *testing.T, f *fixture) {
						l := joinedLimiters(t, f.client, p, time.Hour)[kind]
						if _, ok := p.(Smooth); ok {
							require.True(t, redistest.Result(t, l.TryAcquire, 10), "the stored permits")
							taken := withReceipt(t, l, call, 4)
							require.False(t, redistest.Result(t, l.TryAcquire, 1))
							require.NoError(t, taken.Refund(t.Context(), 4))
							assert.True(t, redistest.Result(t, l.TryAcquire, 1))
							return
						}
						taken := withReceipt(t, l, call, 4)
						time.Sleep(time.Millisecond)
						require.True(t, redistest.Result(t, l.TryAcquire, 5))
						require.NoError(t, taken.Refund(t.Context(), 3))
						for _, d := range peekAll(t, l) {
							assert.EqualValues(t, d.Limit-6, d.Remaining)
						}
						require.NoError(t, l.Reset(t.Context()))
						require.True(t, redistest.Result(t, l.TryAcquire, 5))
						require.NoError(t, taken.Refund(t.Context(), 1))
						for _, d := range peekAll(t, l) {
							assert.EqualValues(t, d.Limit-5, d.Remaining, "after a Reset")
						}
					})
				})
			}
		}
	}
}

// TestReceipt_CallersOfOneCall_EachRefundsItsOwn: at any time of the window, in any order, with other
// grants before and after it.
func TestReceipt_CallersOfOneCall_EachRefundsItsOwn(t *testing.T) {
	const callers, others = 20, 300
	for name, opts := range map[string][]rratelimiter.Option{
		"": nil, "by the server's clock": {rratelimiter.WithServerTime()},
	} {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(t *testing.T, f *fixture) {
				client := rratelimiter.New(f.Conn, opts...)
				shared := client.Limiter("{name}:shared")
				require.NoError(t, shared.SetRate(t.Context(), rratelimiter.Rate{Permits: 10_000, Interval: time.Hour}))
				l := Join(New(client, "{name}:policy", FixedWindow{10_000, time.Hour, false}), shared)
				require.True(t, redistest.Result(t, l.TryAcquire, 1))
				f.fillShared(shared.Name(), others) // more than a page
				f.Latency.Store(int64(10 * time.Millisecond))
				var all sync.WaitGroup
				receipts := make([]receipt.Receipt, callers)
				before := f.Scripts.Load()
				for i := range receipts {
					all.Go(func() { receipts[i] = withReceipt(t, l, "Take", int64(i+1)) })
					synctest.Wait()
				}
				all.Wait()
				require.Less(t, f.Scripts.Load()-before, int64(callers/2), "callers share calls")
				f.Latency.Store(0)
				f.fillShared(shared.Name(), others)
				for _, i := range []int{7, 3, 19, 0, 12} {
					require.NoError(t, receipts[i].Refund(t.Context(), int64(i+1)))
				}
				for i, r := range receipts {
					all.Go(func() {
						if i != 7 && i != 3 && i != 19 && i != 0 && i != 12 {
							assert.NoError(t, r.Refund(t.Context(), r.Permits))
						}
					})
				}
				all.Wait()
				left := peekAll(t, l)
				assert.EqualValues(t, 10_000-1, left[0].Remaining)
				assert.EqualValues(t, 10_000-1-2*others, left[1].Remaining)
			})
		})
	}
}

// TestReceipt_Lease_RefundsToRedis: the permits of a lease return within its window. The lease stays.
func TestReceipt_Lease_RefundsToRedis(t *testing.T) {
	const interval = 10 * time.Second
	inLease(t, []Policy{FixedWindow{100_000, interval, false}}, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
		other := New(rratelimiter.New(f.QuickConn()), "name", FixedWindow{100_000, interval, false})
		require.Equal(t, 100, f.CountGranted(l, 100, 20*time.Microsecond))
		calls := f.Scripts.Load()
		taken := withReceipt(t, l, "Take", 2)
		waited := withReceipt(t, l, "Acquire", 2)
		require.Equal(t, calls, f.Scripts.Load(), "granted from the lease")
		before := peekAll(t, other)[0].Remaining
		require.NoError(t, taken.Refund(t.Context(), 2))
		assert.Equal(t, before+2, peekAll(t, other)[0].Remaining)
		calls = f.Scripts.Load()
		require.Equal(t, 2, f.CountGranted(l, 2, 0))
		assert.Equal(t, calls, f.Scripts.Load(), "the lease stays")
		time.Sleep(11 * time.Millisecond) // the lease ends
		before = peekAll(t, other)[0].Remaining
		require.NoError(t, waited.Refund(t.Context(), 2))
		assert.Equal(t, before+2, peekAll(t, other)[0].Remaining)

		time.Sleep(interval)
		require.Equal(t, 100, f.CountGranted(l, 100, 20*time.Microsecond))
		taken = withReceipt(t, l, "Take", 2)
		time.Sleep(interval)
		require.True(t, redistest.Result(t, other.Take, 100_000).Allowed)
		require.NoError(t, taken.Refund(t.Context(), 2))
		assert.Zero(t, peekAll(t, other)[0].Remaining, "in a later window")
	})
}

// TestReceipt_AfterAWait_RefundsPartsOnce: of every way to wait.
func TestReceipt_AfterAWait_RefundsPartsOnce(t *testing.T) {
	for _, p := range []Policy{
		TokenBucket{4, 4, time.Second}, LeakyBucket{4, 4, time.Second}, FixedWindow{4, time.Second, false},
		Smooth{Permits: 4, Interval: time.Second, Burst: time.Millisecond},
	} {
		runWithRedis(t, fmt.Sprintf("%T", p), func(t *testing.T, f *fixture) {
			l := New(f.exact(), "name", p)
			require.True(t, redistest.Result(t, l.TryAcquire, 4))
			taken := withReceipt(t, l, "Acquire", 4)
			time.Sleep(10 * time.Millisecond)
			denied := redistest.Result(t, l.Take, 4)
			require.False(t, denied.Allowed)
			require.NoError(t, taken.Refund(t.Context(), 2))
			half := redistest.Result(t, l.Take, 4)
			if _, window := p.(FixedWindow); window {
				assert.Equal(t, denied.Remaining+2, half.Remaining)
			} else {
				assert.InDelta(t, denied.RetryAfter-time.Second/2, half.RetryAfter, float64(11*time.Millisecond))
			}
			time.Sleep(5 * time.Second)
			require.NoError(t, taken.Refund(t.Context(), 2))
			require.True(t, redistest.Result(t, l.TryAcquire, 4))
			require.False(t, redistest.Result(t, l.TryAcquire, 1), "the refund came later")
		})
	}
}

// TestReceipt_RateOfTheOtherMemberIsGone_RefundsThePolicy: nothing is left of the grant of the other.
func TestReceipt_RateOfTheOtherMemberIsGone_RefundsThePolicy(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := FixedWindow{Permits: 10, Interval: time.Hour}
		for _, kind := range []string{"joined", "joined, shared first"} {
			f.Redis.FlushAll()
			taken := withReceipt(t, joinedLimiters(t, f.client, p, time.Hour)[kind], "TryAcquire", 4)
			f.Redis.Del("{name}:shared")
			require.NoError(t, taken.Refund(t.Context(), 4), kind)
			assert.True(t, redistest.Result(t, New(f.client, "{name}:policy", p).TryAcquire, 10), kind)
		}
	})
}
