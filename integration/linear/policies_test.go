package linear

import (
	"context"
	"fmt"
	"io"
	"reflect"
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

// Policy is the model of one policy of package limit, without grants.
type Policy struct {
	Limit int64
	policymodel.Model
	// Longest is not 0 if the clock of the server ends the windows, which no history sets. Then the times of decisions
	// are not those of the model: they are above 0 if the model's are, and at most this.
	Longest time.Duration
}

// policies is the state of a limiter of package limit: of each policy, in their order.
type policies []Policy

// Policies returns the model of a limiter of package limit on a clock that is set: all policies
// grant a request, or none does.
func Policies(all ...Policy) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{policies(all)} },
		Step: func(state, input, output any) []any {
			s, in, out := state.(policies), input.(Input), output.(Output)
			var next []any
			if out.lost() || in.Call == Return {
				next = append(next, s) // not applied
			}
			for _, at := range slices.Compact(slices.Clone(in.Readings)) {
				if in.Call == Return { // it may find no place, since the call was not applied
					after, none := s.clone(), in
					none.Permits = 0
					after.step(none, out, at)
					next = append(next, after)
				}
				after := s.clone()
				if in.Call == Reset {
					after = policies(all)
				}
				if after.step(in, out, at) {
					next = append(next, after)
				}
			}
			return next
		},
		Equal:             reflect.DeepEqual,
		DescribeOperation: describe,
		DescribeState: func(state any) string {
			var text string
			for _, p := range state.(policies) {
				text += fmt.Sprintf("%+v ", p.Model)
			}
			return text
		},
	}
	return model.ToModel()
}

func (s policies) clone() policies {
	c := slices.Clone(s)
	for i := range c {
		c[i].Model = c[i].Clone()
	}
	return c
}

// step applies a call at a time. It reports whether the model gives the answer of the call; if that
// was lost, any answer is right.
func (s policies) step(in Input, out Output, at int64) bool {
	if s[0].Longest > 0 {
		at = begin
	}
	switch in.Call {
	case Reset: // the state is new
		return true
	case Return:
		for _, p := range s {
			if places, held := p.Model.(*policymodel.InFlight); held {
				places.Return(at, in.Permits, in.From)
			}
		}
		return true
	case Release:
		for _, p := range s {
			p.Release(at, in.Permits)
		}
		return true
	case Charge:
		for _, p := range s {
			if _, held := p.Model.(*policymodel.InFlight); !held {
				p.Charge(at, in.Permits)
			}
		}
		return out.lost() || s.decides(out.Decision, s.grants(at, 1), 1, at)
	case Peek:
		return out.lost() || s.shows(out.Each, at)
	case TryAcquire, Take:
		allowed := s.take(at, in.Permits)
		if out.lost() || in.Call == TryAcquire {
			return out.lost() || out.Allowed == allowed
		}
		return s.decides(out.Decision, allowed, in.Permits, at)
	case TakeUpTo:
		n := in.Permits
		for n > 0 && !s.take(at, n) {
			n--
		}
		return out.lost() || out.Available == n && s.decides(out.Decision, n > 0, 1, at)
	}
	panic(in.Call)
}

// grants reports whether all policies would grant permits.
func (s policies) grants(at, permits int64) bool {
	return !slices.ContainsFunc(s, func(p Policy) bool { return p.Wait(at, permits) > 0 })
}

// take takes permits of all policies, if all have them.
func (s policies) take(at, permits int64) bool {
	if !s.grants(at, permits) {
		return false
	}
	for _, p := range s {
		p.Charge(at, permits)
	}
	return true
}

// decides reports whether a Decision is right after a request. It has the limit and the remaining
// permits of the policy with the fewest, or that denies for longest. A Smooth rounds ResetAfter.
func (s policies) decides(d rratelimiter.Decision, allowed bool, permits, at int64) bool {
	var retry, reset int64
	fewest := s[0].remaining(at)
	for _, p := range s {
		fewest, reset = min(fewest, p.remaining(at)), max(reset, p.Reset(at))
		if !allowed {
			retry = max(retry, p.Wait(at, permits))
		}
	}
	if longest := s[0].Longest; longest > 0 {
		d.RetryAfter, d.ResetAfter = known(d.RetryAfter, retry, longest), known(d.ResetAfter, reset, longest)
	}
	return d.Allowed == allowed && d.RetryAfter == micros(retry) &&
		(d.ResetAfter-micros(reset)).Abs() <= time.Microsecond &&
		slices.ContainsFunc(s, func(p Policy) bool {
			return d.Limit == p.Limit && d.Remaining == p.remaining(at) &&
				(allowed && p.remaining(at) == fewest || !allowed && p.Wait(at, permits) == retry)
		})
}

// shows reports whether Decisions are right that Peek returns.
func (s policies) shows(all []rratelimiter.Decision, at int64) bool {
	want := make([]rratelimiter.Decision, len(s))
	for i, p := range s {
		wait := p.Wait(at, 1)
		want[i] = rratelimiter.Decision{Allowed: wait == 0, Limit: p.Limit, Remaining: p.remaining(at),
			RetryAfter: micros(wait), ResetAfter: micros(p.Reset(at))}
		if p.Longest > 0 && i < len(all) {
			all = slices.Clone(all)
			all[i].RetryAfter = known(all[i].RetryAfter, wait, p.Longest)
			all[i].ResetAfter = known(all[i].ResetAfter, p.Reset(at), p.Longest)
		}
	}
	return slices.Equal(all, want)
}

// known returns the time that is wanted, if both are above 0 and d is not too long, else d.
func known(d time.Duration, wanted int64, longest time.Duration) time.Duration {
	if d > 0 && d <= longest && wanted > 0 {
		return micros(wanted)
	}
	return d
}

func (p Policy) remaining(at int64) int64 { return max(0, p.Free(at)) }

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
