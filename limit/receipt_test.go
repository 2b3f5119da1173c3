package limit

import (
	"context"
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

// takings are the calls that take permits and leave a receipt.
var takings = map[string]func(ctx context.Context, l *Limiter, permits int64) error{
	"TryAcquire": func(ctx context.Context, l *Limiter, permits int64) error { return errOf(l.TryAcquire(ctx, permits)) },
	"Take":       func(ctx context.Context, l *Limiter, permits int64) error { return errOf(l.Take(ctx, permits)) },
	"TakeEach":   func(ctx context.Context, l *Limiter, permits int64) error { return errOf(l.TakeEach(ctx, permits)) },
	"TryAcquireWithin": func(ctx context.Context, l *Limiter, permits int64) error {
		return errOf(l.TryAcquireWithin(ctx, permits, time.Minute))
	},
	"Acquire": func(ctx context.Context, l *Limiter, permits int64) error { return l.Acquire(ctx, permits) },
}

// withReceipt takes permits by one of these calls, and returns the receipt.
func withReceipt(t testing.TB, l *Limiter, call string, permits int64) receipt.Receipt {
	t.Helper()
	slot := receipt.Collect(t.Context())
	require.NoError(t, takings[call](slot, l, permits))
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
		for call := range takings {
			for _, kind := range []string{"alone", "joined", "joined, shared first"} {
				t.Run(fmt.Sprintf("%T, %s, %s", p, call, kind), func(t *testing.T) {
					withRedis(t, func(b *fixture) {
						l := joinedLimiters(b, b.client, p, time.Hour)[kind]
						if _, ok := p.(Smooth); ok {
							require.True(b, must(b, l.TryAcquire, 10), "the stored permits")
							taken := withReceipt(b, l, call, 4)
							require.False(b, must(b, l.TryAcquire, 1))
							require.NoError(b, taken.Refund(b.Context(), 4))
							assert.True(b, must(b, l.TryAcquire, 1))
							return
						}
						taken := withReceipt(b, l, call, 4)
						redistest.Pass(ms)
						require.True(b, must(b, l.TryAcquire, 5))
						require.NoError(b, taken.Refund(b.Context(), 3))
						for _, d := range mustPeek(b, l) {
							assert.EqualValues(b, d.Limit-6, d.Remaining)
						}
						require.NoError(b, l.Reset(b.Context()))
						require.True(b, must(b, l.TryAcquire, 5))
						require.NoError(b, taken.Refund(b.Context(), 1))
						for _, d := range mustPeek(b, l) {
							assert.EqualValues(b, d.Limit-5, d.Remaining, "after a Reset")
						}
					})
				})
			}
		}
	}
}

// TestReceipt_LaterWindow_RefundsNothing: the permits of the grant have returned, and others have
// taken them.
func TestReceipt_LaterWindow_RefundsNothing(t *testing.T) {
	for _, p := range []Policy{
		FixedWindow{10, time.Second, false}, FixedWindow{10, time.Second, true}, SlidingLog{10, time.Second},
		SlidingWindow{10, time.Second, 0}, TokenBucket{10, 10, time.Second}, LeakyBucket{10, 10, time.Second},
		Smooth{Permits: 10, Interval: time.Second, Burst: time.Second},
	} {
		for call := range takings {
			for _, kind := range []string{"alone", "joined"} {
				t.Run(fmt.Sprintf("%T, %s, %s", p, call, kind), func(t *testing.T) {
					withRedis(t, func(b *fixture) {
						l := joinedLimiters(b, b.client, p, time.Second)[kind]
						taken := withReceipt(b, l, call, 10)
						redistest.Pass(1100 * ms)
						require.True(b, must(b, l.TryAcquire, 10))
						want := mustPeek(b, l)
						require.NoError(b, taken.Refund(b.Context(), 10))
						assert.Equal(b, want, mustPeek(b, l))
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
			withRedis(t, func(b *fixture) {
				client := rratelimiter.New(b.Conn, opts...)
				shared := client.Limiter("{name}:shared")
				require.NoError(b, shared.SetRate(b.Context(), rratelimiter.Rate{Permits: 10_000, Interval: time.Hour}))
				l := Join(New(client, "{name}:policy", FixedWindow{10_000, time.Hour, false}), shared)
				busy := func() {
					for range others {
						redistest.Pass(ms)
						require.True(b, must(b, l.TryAcquire, 1))
					}
				}
				busy()
				b.Latency.Store(int64(10 * ms))
				var all sync.WaitGroup
				receipts := make([]receipt.Receipt, callers)
				before := b.Scripts.Load()
				for i := range receipts {
					all.Go(func() { receipts[i] = withReceipt(b, l, "Take", int64(i+1)) })
					synctest.Wait()
				}
				all.Wait()
				require.Less(b, b.Scripts.Load()-before, int64(callers/2), "callers share calls")
				b.Latency.Store(0)
				busy()
				for _, i := range []int{7, 3, 19, 0, 12} {
					require.NoError(b, receipts[i].Refund(b.Context(), int64(i+1)))
				}
				for i, r := range receipts {
					all.Go(func() {
						if i != 7 && i != 3 && i != 19 && i != 0 && i != 12 {
							assert.NoError(b, r.Refund(b.Context(), r.Permits))
						}
					})
				}
				all.Wait()
				for _, d := range mustPeek(b, l) {
					assert.EqualValues(b, 10_000-2*others, d.Remaining)
				}
			})
		})
	}
}

// TestReceipt_Lease_RefundsToRedis: the permits of a lease return within its window. The lease stays.
func TestReceipt_Lease_RefundsToRedis(t *testing.T) {
	const interval = 10 * time.Second
	inLease(t, []Policy{FixedWindow{100_000, interval, false}}, func(b *redistest.Fixture, l *Limiter) {
		other := New(rratelimiter.New(b.QuickConn()), "name", FixedWindow{100_000, interval, false})
		require.Equal(b, 100, b.Often(l, 100, 20*time.Microsecond))
		calls := b.Scripts.Load()
		taken := withReceipt(b, l, "Take", 2)
		waited := withReceipt(b, l, "Acquire", 2)
		require.Equal(b, calls, b.Scripts.Load(), "granted from the lease")
		before := mustPeek(b, other)[0].Remaining
		require.NoError(b, taken.Refund(b.Context(), 2))
		assert.Equal(b, before+2, mustPeek(b, other)[0].Remaining)
		calls = b.Scripts.Load()
		require.Equal(b, 2, b.Often(l, 2, 0))
		assert.Equal(b, calls, b.Scripts.Load(), "the lease stays")
		redistest.Pass(11 * ms) // the lease ends
		before = mustPeek(b, other)[0].Remaining
		require.NoError(b, waited.Refund(b.Context(), 2))
		assert.Equal(b, before+2, mustPeek(b, other)[0].Remaining)

		redistest.Pass(interval)
		require.Equal(b, 100, b.Often(l, 100, 20*time.Microsecond))
		taken = withReceipt(b, l, "Take", 2)
		redistest.Pass(interval)
		require.True(b, must(b, other.Take, 100_000).Allowed)
		require.NoError(b, taken.Refund(b.Context(), 2))
		assert.Zero(b, mustPeek(b, other)[0].Remaining, "in a later window")
	})
}

// TestReceipt_AfterAWait_RefundsPartsOnce: the permits of a reservation too.
func TestReceipt_AfterAWait_RefundsPartsOnce(t *testing.T) {
	for _, p := range []Policy{
		TokenBucket{4, 4, time.Second}, LeakyBucket{4, 4, time.Second}, FixedWindow{4, time.Second, false},
		Smooth{Permits: 4, Interval: time.Second, Burst: ms},
	} {
		runWithRedis(t, fmt.Sprintf("%T", p), func(b *fixture) {
			l := New(b.client, "name", p)
			require.True(b, must(b, l.TryAcquire, 4))
			taken := withReceipt(b, l, "Acquire", 4)
			redistest.Pass(10 * ms)
			denied := must(b, l.Take, 4)
			require.False(b, denied.Allowed)
			require.NoError(b, taken.Refund(b.Context(), 2))
			half := must(b, l.Take, 4)
			if _, window := p.(FixedWindow); window {
				assert.Equal(b, denied.Remaining+2, half.Remaining)
			} else {
				assert.InDelta(b, denied.RetryAfter-time.Second/2, half.RetryAfter, float64(11*ms))
			}
			redistest.Pass(5 * time.Second)
			require.NoError(b, taken.Refund(b.Context(), 2))
			require.True(b, must(b, l.TryAcquire, 4))
			require.False(b, must(b, l.TryAcquire, 1), "the refund came later")
		})
	}
}

// TestReceipt_RateOfTheOtherMemberIsGone_RefundsThePolicy: nothing is left of the grant of the other.
func TestReceipt_RateOfTheOtherMemberIsGone_RefundsThePolicy(t *testing.T) {
	withRedis(t, func(b *fixture) {
		p := FixedWindow{Permits: 10, Interval: time.Hour}
		for _, kind := range []string{"joined", "joined, shared first"} {
			b.Redis.FlushAll()
			taken := withReceipt(b, joinedLimiters(b, b.client, p, time.Hour)[kind], "TryAcquire", 4)
			b.Redis.Del("{name}:shared")
			require.NoError(b, taken.Refund(b.Context(), 4), kind)
			assert.True(b, must(b, New(b.client, "{name}:policy", p).TryAcquire, 10), kind)
		}
	})
}
