package rratelimiter

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

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
