package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// gate is the common part of all four interceptors.
type gate struct {
	settings
	guard  *guard.Guard
	choose func(context.Context, Call) (Limiter, error)
	pauses guard.Pauses // of clients
}

// visit is a call that a server's gate admitted, and the context of its handler.
type visit = guard.Visit[Outcome]

// newGate returns a gate. Unless an option changes it, maxWaiting bounds the calls that wait at
// once; 0 means no bound.
func newGate(interceptor string, choose func(context.Context, Call) (Limiter, error), opts []Option,
	maxWaiting int) *gate {
	if choose == nil {
		panic(fmt.Sprintf("grpclimit: %s: choose is nil: pass All, Each or a function that returns a Limiter", interceptor))
	}
	g := &gate{
		settings: settings{
			deadline: DefaultDeadline, sharing: guard.NewShared, spread: guard.NewSpread(),
			policies: describe(guard.Describe(nil)),
		},
		choose: choose,
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&g.settings)
		}
	}
	g.guard = g.sharing(g.deadline, g.changed).Guard(guard.Mode(g.mode), cmp.Or(g.maxWaiting, maxWaiting))
	return g
}

// request returns the guard's request for a call. It reports in limited whether anything limits the
// call.
func (g *gate) request(ctx context.Context, call Call) (q guard.Request, d *description, limited bool, err error) {
	if !g.exemptNone && !call.Outgoing && guard.Exempt(call.Service()) || g.skip != nil && g.skip(ctx, call) {
		return q, nil, false, nil
	}
	limiter, err := g.choose(ctx, call)
	if err != nil {
		return q, nil, true, err
	}
	if limiter, d = guard.Unwrap(limiter, g.policies); guard.IsNil(limiter) {
		return q, nil, false, nil
	}
	q = guard.Request{Limiter: limiter, Policies: d.Policies, Permits: 1, Wait: g.wait}
	if g.cost != nil {
		if q.Permits = g.cost(ctx, call); q.Permits == 0 {
			return q, nil, false, nil
		}
		if q.Permits < 0 {
			return q, d, true, guard.Invalidf("grpclimit: Cost: the cost is negative: %d", q.Permits)
		}
	}
	return q, d, true, nil
}

// decide decides a call, and reports it. It returns false if nothing limits the call.
func (g *gate) decide(ctx context.Context, call Call) (q guard.Request, a guard.Answer, o Outcome, limited bool) {
	q, d, limited, err := g.request(ctx, call)
	switch {
	case !limited:
		return q, a, o, false
	case err != nil && !call.Outgoing && !g.invalidFails && errors.Is(err, ErrInvalidRequest):
		a = guard.Invalid(err)
	case err != nil:
		a = g.guard.Fail(err)
	case g.shadow:
		q.Wait = 0
		a = g.guard.Ask(ctx, q)
	case call.Outgoing:
		if q.Wait == 0 && !g.atOnce {
			q.Wait = guard.Forever
		}
		a = g.pauses.Ask(ctx, g.guard, q)
	default:
		a = g.guard.Ask(ctx, q)
	}
	o = Outcome{
		Result: Result(a.Result), Shadow: g.shadow, Local: a.Local, Limiter: guard.NameOf(q.Limiter), Cost: q.Permits,
		Decision: a.Decision, Each: a.Each, Err: a.Err, answer: a, policies: d,
	}
	if g.report != nil {
		g.report(ctx, call, o)
	}
	return q, a, o, true
}

// passes reports whether a call proceeds.
func (g *gate) passes(o *Outcome) bool {
	return g.shadow || o.answer.Result.Passes()
}

// admit decides a call to a server, or a message. It returns the visit of a call that proceeds, nil
// if nothing limits the call, or the refusal.
func (g *gate) admit(ctx context.Context, call Call) (*visit, *refusal) {
	q, a, o, limited := g.decide(ctx, call)
	if !limited {
		return nil, nil
	}
	if !g.passes(&o) {
		subject := ""
		if g.subject != nil && o.Result == Rejected {
			subject = g.subject(ctx, call)
		}
		return nil, newRefusal(ctx, &o, subject, g.spread)
	}
	return guard.NewVisit(ctx, g.guard, q, a, o), nil
}

// settle applies the handler's Settle.
func (g *gate) settle(call Call, v *visit) {
	if err := v.End(); err != nil && g.unsettled != nil {
		g.unsettled(v.Context, call, err)
	}
}
