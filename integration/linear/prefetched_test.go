package linear

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// prefetched is the state of a limiter whose Clients prefetch permits: what callers got, the oldest first.
type prefetched struct {
	grants   []grant
	released int64 // when permits were released last: it is not known whose, since a prefetch is dated at its end
}

// Prefetched returns the model of a limiter whose Clients prefetch permits for at most a duration. It allows
// what the documentation of WithPrefetch does. Callers never get more than the rate in an interval. A
// prefetched permit that no caller has yet may be missing for the others, so any denial is right, and a
// lower number of remaining permits. Once all prefetches are flushed, a permit is missing for at most an
// interval and a prefetch after a caller got it.
func Prefetched(rate int64, interval, prefetch time.Duration) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return prefetched{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(prefetched).step(input.(Input), output.(Output), rate, interval, prefetch)
		},
		Equal: func(a, b any) bool {
			x, y := a.(prefetched), b.(prefetched)
			return x.released == y.released && slices.Equal(x.grants, y.grants)
		},
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// since returns how many permits callers certainly got after a time. Limiters count in whole
// milliseconds, always rounded down.
func (l prefetched) since(at int64) (permits int64) {
	for _, g := range l.grants {
		if g.from > at {
			permits += g.permits
		}
	}
	return permits
}

func (l prefetched) step(in Input, out Output, rate int64, interval, prefetch time.Duration) (ok bool,
	next prefetched) {
	next = prefetched{slices.Clone(l.grants), l.released}
	free := rate - l.since(in.To/1000-interval.Milliseconds())
	switch in.Call {
	case TryAcquire, Take:
		if in.Permits > rate {
			return errors.Is(out.Err, rratelimiter.ErrPermitsExceedRate), l
		}
		if allowed := out.Allowed || out.Decision.Allowed; !allowed {
			return out.Decision.Remaining <= max(0, free), l
		}
		next.grants = append(next.grants, grant{in.From / 1000, in.To / 1000, in.Permits})
		// A grant from a prefetch reports what was left when the prefetch began.
		return in.Permits <= free && (in.Prefetches || out.Decision.Remaining <= free-in.Permits), next
	case TakeUpTo:
		granted := out.Available
		if granted == 0 {
			return out.Decision.Remaining <= max(0, free), l
		}
		next.grants = append(next.grants, grant{in.From / 1000, in.To / 1000, granted})
		return granted <= min(free, in.Permits) && (in.Prefetches || out.Decision.Remaining <= free-granted), next
	case AvailablePermits:
		least := int64(0)
		if in.Idle && l.released <= in.From/1000-(interval+prefetch).Milliseconds() {
			least = rate - l.since(in.From/1000-(interval+prefetch).Milliseconds())
		}
		return out.Available <= max(0, free) && out.Available >= least, l
	case Release:
		next.release(in.Permits)
		next.released = in.To / 1000
		return true, next
	default:
		panic(in.Call)
	}
}

// release returns permits: here the newest ones, so that since stays a lower bound.
func (l *prefetched) release(permits int64) {
	for permits > 0 && len(l.grants) > 0 {
		last := &l.grants[len(l.grants)-1]
		n := min(permits, last.permits)
		permits -= n
		if last.permits -= n; last.permits == 0 {
			l.grants = l.grants[:len(l.grants)-1]
		}
	}
}
