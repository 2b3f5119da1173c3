package linear

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/limit"
)

// scheme is a limiter of package limit: its policies and their models.
type scheme struct {
	window   time.Duration
	policies []limit.Policy
	models   []Policy
}

const (
	quota  = 8
	window = 1000 * time.Second
	micro  = int64(window / time.Microsecond)
)

// one returns a scheme of one policy.
func one(p limit.Policy, model policymodel.Model) scheme {
	return scheme{window, []limit.Policy{p}, []Policy{{quota, model, 0}}}
}

// byServer returns a scheme of a policy whose windows end by the clock of the server: none does in a history.
func byServer(p limit.Policy, longest time.Duration) scheme {
	model := &policymodel.FixedWindow{Permits: quota, Interval: micro}
	return scheme{window, []limit.Policy{p}, []Policy{{quota, model, longest}}}
}

var logAndPlaces = scheme{window, []limit.Policy{limit.SlidingLog{Permits: quota, Interval: window},
	limit.InFlight{Permits: quota / 2, Lease: window / 4}},
	[]Policy{{quota, &policymodel.SlidingLog{Permits: quota, Interval: micro}, 0},
		{quota / 2, &policymodel.InFlight{Permits: quota / 2, Lease: micro / 4}, 0}}}

var schemes = []scheme{
	byServer(limit.FixedWindow{Permits: quota, Interval: window}, window),
	byServer(limit.FixedWindow{Permits: quota, Interval: 10_000 * window, Aligned: true}, 10_000*window),
	byServer(limit.Calendar{Permits: quota, Unit: limit.Year}, 366*24*time.Hour),
	one(limit.SlidingWindow{Permits: quota, Interval: window},
		&policymodel.SlidingWindow{Permits: quota, Cell: micro / 10, Cells: 10}),
	one(limit.SlidingLog{Permits: quota, Interval: window},
		&policymodel.SlidingLog{Permits: quota, Interval: micro}),
	one(limit.TokenBucket{Capacity: quota, Refill: 3, Interval: window},
		&policymodel.TokenBucket{Capacity: quota, Refill: 3, Interval: micro}),
	one(limit.LeakyBucket{Capacity: quota, Leak: 3, Interval: window},
		&policymodel.TokenBucket{Capacity: quota, Refill: 3, Interval: micro}),
	one(limit.Smooth{Permits: quota, Interval: window, Burst: window},
		policymodel.NewSmooth(quota/window.Seconds(), window.Seconds(), 0)),
	one(limit.InFlight{Permits: quota, Lease: window},
		&policymodel.InFlight{Permits: quota, Lease: micro}),
	logAndPlaces,
	{window, []limit.Policy{limit.SlidingLog{Permits: quota, Interval: window},
		limit.TokenBucket{Capacity: quota / 2, Refill: 3, Interval: window}},
		[]Policy{{quota, &policymodel.SlidingLog{Permits: quota, Interval: micro}, 0},
			{quota / 2, &policymodel.TokenBucket{Capacity: quota / 2, Refill: 3, Interval: micro}, 0}}},
}

// TestPolicies_GoClients_IsLinearizable: each policy and two policies together.
func TestPolicies_GoClients_IsLinearizable(t *testing.T) {
	check(t, "policies", histories(33), func(i int, seed uint64) (*History, porcupine.Model) {
		s := schemes[i%len(schemes)]
		switch {
		case i%20 == 19:
			return limiting(t, s, seed, failover)
		case i%2 == 1:
			return limiting(t, s, seed, cut)
		}
		return limiting(t, s, seed, none)
	})
}

// TestPolicies_ReplyLost_PlaceMayReturn: the Client returns the place of the call, and the log keeps its permits.
func TestPolicies_ReplyLost_PlaceMayReturn(t *testing.T) {
	h := &History{Clock: NewClock(begin)}
	h.Do(0, Input{Call: Take, Permits: 4}, func(context.Context, Input) Output { return Output{Err: io.EOF} })
	h.Do(1, Input{Call: Peek}, func(context.Context, Input) Output {
		return Output{Each: []rratelimiter.Decision{{Allowed: true, Limit: quota, Remaining: quota - 4, ResetAfter: window},
			{Allowed: true, Limit: quota / 2, Remaining: quota / 2}}}
	})
	model := Policies(logAndPlaces.models...)
	require.False(t, porcupine.CheckOperations(model, h.Calls()))
	h.mayReturn()
	require.True(t, porcupine.CheckOperations(model, h.Calls()))
}

func limiting(t *testing.T, s scheme, seed uint64, f fault) (*History, porcupine.Model) {
	name := nameOf(seed)
	h := &History{Clock: NewClock(begin), Late: f.late}
	var limiters []*limit.Limiter
	for _, conn := range conns {
		client := rratelimiter.New(conn, rratelimiter.WithClock(h.Clock.Now))
		limiters = append(limiters, limit.New(client, name, s.policies...))
	}
	makeCalls(t, seed, name, f, func(c *caller) {
		// Keys expire on the server's clock, so no permit may return within seconds.
		advance(h.Clock, c.random, s.window, 10*time.Second)
		in := Input{Call: policyCalls[c.random.IntN(len(policyCalls))], Permits: 1 + c.random.Int64N(4)}
		if _, held := s.policies[0].(limit.InFlight); held && (in.Call == Release || in.Call == Charge) {
			in.Call = Peek // neither acts on it
		}
		h.Do(c.number, in, policyCall(limiters[c.random.IntN(clients)]))
	})
	if slices.ContainsFunc(s.policies, func(p limit.Policy) bool { _, held := p.(limit.InFlight); return held }) {
		h.mayReturn()
	}
	return h, Policies(s.models...)
}

// policyCalls are the calls of a history, as often as they are made.
var policyCalls = slices.Concat(slices.Repeat([]Call{TryAcquire, Take, Take}, 5),
	[]Call{TakeUpTo, TakeUpTo, Release, Charge, Peek, Reset})

// policyCall makes a call of a limiter of package limit.
func policyCall(l *limit.Limiter) func(context.Context, Input) Output {
	return func(ctx context.Context, in Input) (out Output) {
		switch in.Call {
		case TryAcquire:
			out.Allowed, out.Err = l.TryAcquire(ctx, in.Permits)
		case Take:
			out.Decision, out.Err = l.Take(ctx, in.Permits)
		case TakeUpTo:
			out.Available, out.Decision, out.Err = l.TakeUpTo(ctx, in.Permits)
		case Release:
			out.Err = l.Release(ctx, in.Permits)
		case Charge:
			out.Decision, out.Err = l.Charge(ctx, in.Permits)
		case Peek:
			out.Each, out.Err = l.Peek(ctx)
		case Reset:
			out.Err = l.Reset(ctx)
		default:
			panic(in.Call)
		}
		return out
	}
}
