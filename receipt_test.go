package rratelimiter

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// ask is a call that requests permits.
type ask struct {
	name  string
	waits bool
	call  func(ctx context.Context, l *Limiter, permits int64) error
}

var asks = []ask{
	{"TryAcquire", false, func(ctx context.Context, l *Limiter, n int64) error { return errOf(l.TryAcquire(ctx, n)) }},
	{"TryAcquireWithin", true, func(ctx context.Context, l *Limiter, n int64) error {
		return errOf(l.TryAcquireWithin(ctx, n, time.Minute))
	}},
	{"Acquire", true, func(ctx context.Context, l *Limiter, n int64) error { return l.Acquire(ctx, n) }},
}

// withReceipt takes permits of a limiter, and returns the receipt.
func withReceipt(b *fixture, call func(context.Context, *Limiter, int64) error, l *Limiter,
	permits int64) receipt.Receipt {
	slot := receipt.Collect(b.Context())
	assert.NoError(b, call(slot, l, permits))
	taken := slot.Of(permits)
	assert.NotNil(b, taken.Refund)
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
		for i, ask := range asks {
			if i > 0 && name != "plain" && redistest.Deep(0, 1) == 0 {
				continue
			}
			runWithRedis(t, name+", "+ask.name, func(b *fixture) {
				l := b.limiter(Rate{Permits: rate, Interval: interval}, opts...)
				other := New(b.QuickConn()).Limiter("limiter")
				busy := func() {
					for range others { // more than a page
						pass(time.Millisecond)
						b.Take(other, 1)
					}
				}
				busy()
				b.Latency.Store(int64(10 * time.Millisecond))
				receipts := make([]receipt.Receipt, callers)
				var all sync.WaitGroup
				for i := range receipts {
					all.Go(func() { receipts[i] = withReceipt(b, ask.call, l, int64(i+1)) })
					synctest.Wait()
				}
				all.Wait()
				b.Latency.Store(0)
				busy() // a lease ends, too
				for i, r := range receipts {
					if i%2 == 0 {
						all.Go(func() { assert.NoError(b, r.Refund(b.Context(), r.Permits)) })
					}
				}
				all.Wait()
				b.Free(other, rate-2*others-(2+4+6+8+10+12))
				require.NoError(b, receipts[1].Refund(b.Context(), 1), "a part")
				b.Free(other, rate-2*others-(2+4+6+8+10+12)+1)

				pass(interval + time.Second)
				b.Take(other, rate)
				for _, r := range receipts {
					require.NoError(b, r.Refund(b.Context(), r.Permits))
				}
				b.Free(other, 0)
			})
		}
	}
}

// TestReceipt_LeaseServes_RefundsToRedis: the lease stays, and all of its permits return by its end.
func TestReceipt_LeaseServes_RefundsToRedis(t *testing.T) {
	for _, ask := range asks {
		runWithRedis(t, ask.name, func(b *fixture) {
			const rate = 1000
			l := b.limiter(Rate{Permits: rate, Interval: time.Minute}, WithLease(time.Second))
			other := New(b.QuickConn()).Limiter("limiter")
			for range 40 {
				b.Take(l, 1)
				pass(time.Millisecond)
			}
			calls := b.Scripts.Load()
			first, second := withReceipt(b, ask.call, l, 2), withReceipt(b, ask.call, l, 1)
			require.Equal(b, calls, b.Scripts.Load(), "granted from a lease")
			before, err := other.AvailablePermits(b.Context())
			require.NoError(b, err)
			require.NoError(b, first.Refund(b.Context(), 2))
			b.Free(other, before+2)
			calls = b.Scripts.Load()
			b.Take(l, 1)
			require.Equal(b, calls, b.Scripts.Load(), "the lease stays")
			pass(2 * time.Second)
			b.Free(other, rate-42)
			require.NoError(b, second.Refund(b.Context(), 1))
			b.Free(other, rate-41)
		})
	}
}
