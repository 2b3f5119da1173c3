package linear

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestPrefetched_GoClients_IsLinearizable: Clients with and without prefetches. The time is fake, so that
// calls meet the end of a prefetch, and of an interval after that, to the millisecond.
func TestPrefetched_GoClients_IsLinearizable(t *testing.T) {
	check(t, "prefetched", histories(20), func(_ int, seed uint64) (h *History, model porcupine.Model) {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) { h, model = leasing(f, seed) })
		return h, model
	})
}

func leasing(f *redistest.Fixture, seed uint64) (*History, porcupine.Model) {
	const interval, prefetch = 1600 * time.Millisecond, 100 * time.Millisecond
	random := rand.New(rand.NewPCG(seed, 0))
	rate := 16 + random.Int64N(24)
	h := &History{Clock: new(Clock)}
	type client struct {
		*rratelimiter.Limiter
		prefetches bool
	}
	var all []client
	var flush []*rratelimiter.Client
	for i, opts := range [][]rratelimiter.Option{
		{rratelimiter.WithPrefetch(prefetch)}, {rratelimiter.WithPrefetch(prefetch)}, nil,
	} {
		c := rratelimiter.New(f.QuickConn(), opts...)
		flush = append(flush, c)
		all = append(all, client{c.Limiter("name"), i < 2})
	}
	set(f.T, all[0].Limiter, rratelimiter.Rate{Permits: rate, Interval: interval})
	begin := time.Now()
	each(seed, 4, func(c *caller) {
		for i := range 3 * len(phases) {
			phase := phases[i%len(phases)]
			round := time.Duration(i/len(phases)*2) * (interval + prefetch)
			at := begin.Add(round + phase.prefetches*prefetch + phase.intervals*interval)
			// Limiters count in milliseconds, and calls begin anywhere in one.
			time.Sleep(time.Until(at.Add(time.Duration(c.random.IntN(12)) * time.Millisecond / 4)))
			limiter := all[max(0, c.random.IntN(5)-2)] // mostly of the first Client
			in := Input{Call: phase.calls[c.random.IntN(len(phase.calls))], Permits: 1 + c.random.Int64N(2),
				Prefetches: limiter.prefetches}
			if in.Call == TakeUpTo {
				in.Permits = rate
			}
			h.Do(c.number, in, limiterCall(limiter.Limiter, interval))
		}
	})
	for _, c := range flush {
		require.NoError(f, c.Flush(f.Context()))
	}
	settled := Input{Call: AvailablePermits, Idle: true}
	for range 2 {
		h.Do(9, settled, limiterCall(all[2].Limiter, interval))
		time.Sleep(interval + prefetch)
	}
	h.Do(9, settled, limiterCall(all[2].Limiter, interval))
	return h, Prefetched(rate, interval, prefetch)
}

// phases are when calls are made, in several rounds: when there is a demand, by which permits are prefetched,
// when those prefetches end, and when their permits return.
var phases = []struct {
	prefetches, intervals time.Duration // since the round began
	calls                 []Call
}{
	{0, 0, []Call{TryAcquire, Take}},
	{0, 0, []Call{TryAcquire, Take, AvailablePermits}},
	{1, 0, []Call{TryAcquire, Take, TakeUpTo, Release}},
	{1, 1, []Call{TryAcquire, TakeUpTo, TakeUpTo, AvailablePermits}},
}
