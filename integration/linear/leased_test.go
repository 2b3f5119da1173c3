package linear

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestLeased_GoClients_IsLinearizable: Clients with and without leases. The time is fake, so that
// calls meet the end of a lease, and of an interval after that, to the millisecond.
func TestLeased_GoClients_IsLinearizable(t *testing.T) {
	check(t, "leased", histories(40), func(_ int, seed uint64) (h *History, model porcupine.Model) {
		redistest.Run(t, func(f *redistest.Fixture) { h, model = leasing(f, seed) })
		return h, model
	})
}

func leasing(f *redistest.Fixture, seed uint64) (*History, porcupine.Model) {
	const interval, lease = 1600 * time.Millisecond, 100 * time.Millisecond
	random := rand.New(rand.NewPCG(seed, 0))
	rate := 8 + random.Int64N(24)
	h := &History{Clock: new(Clock)}
	type client struct {
		*rratelimiter.Limiter
		leases bool
	}
	var all []client
	var flush []*rratelimiter.Client
	for i, opts := range [][]rratelimiter.Option{{rratelimiter.WithLease(lease)}, {rratelimiter.WithLease(lease)}, nil} {
		c := rratelimiter.New(f.QuickConn(), opts...)
		flush = append(flush, c)
		all = append(all, client{c.Limiter("name"), i < 2})
	}
	set(f.T, all[0].Limiter, rratelimiter.Rate{Permits: rate, Interval: interval})
	each(f.T, seed, "name", none, 5, func(c *caller) {
		for range 8 + c.random.IntN(4) {
			sleepUntilSomething(h, c.random, interval, lease)
			limiter := all[c.random.IntN(len(all))]
			in := Input{Call: leaseCalls[c.random.IntN(len(leaseCalls))], Permits: 1 + c.random.Int64N(3),
				Leases: limiter.leases}
			h.Do(c.number, in, limiterCall(limiter.Limiter, interval))
		}
	})
	for _, c := range flush {
		require.NoError(f, c.Flush(f.Context()))
	}
	settled := Input{Call: AvailablePermits, Settled: true}
	for range 2 {
		h.Do(9, settled, limiterCall(all[2].Limiter, interval))
		time.Sleep(interval + lease)
	}
	h.Do(9, settled, limiterCall(all[2].Limiter, interval))
	return h, Leased(rate, interval, lease)
}

// sleepUntilSomething sleeps not at all, for a moment, or until something happens that an earlier call
// began: its lease ends, or its permits return.
func sleepUntilSomething(h *History, random *rand.Rand, interval, lease time.Duration) {
	calls := h.Calls()
	if len(calls) == 0 || random.IntN(2) == 0 {
		time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		return
	}
	from := time.UnixMicro(calls[random.IntN(len(calls))].Input.(Input).From)
	ends := []time.Duration{lease, lease + time.Millisecond/2, lease + time.Millisecond, interval + lease, interval}
	time.Sleep(max(0, time.Until(from.Add(ends[random.IntN(len(ends))]))))
}

var leaseCalls = slices.Concat(slices.Repeat([]Call{TryAcquire, TryAcquire, Take}, 4),
	[]Call{AvailablePermits, Release})
