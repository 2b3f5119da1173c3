package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// gate is what interceptors of all four kinds have in common.
type gate struct {
	settings
	guard  *guard.Guard
	choose func(context.Context, Call) (Limiter, error)
	pauses guard.Pauses // of clients
}

// visit is a call that passed a server's gate: the context of its handler.
type visit = guard.Visit[Outcome]

// newGate makes a gate, in which so many calls wait at once unless an option says otherwise, 0 for any number.
func newGate(interceptor string, choose func(context.Context, Call) (Limiter, error), opts []Option, maxWaiting int) *gate {
	if choose == nil {
		panic(fmt.Sprintf("grpclimit: %s: nothing chooses the limiter of a call", interceptor))
	}
	g := &gate{settings: settings{deadline: DefaultDeadline, sharing: guard.NewShared, known: describe(nil)}, choose: choose}
	for _, opt := range opts {
		if opt != nil {
			opt(&g.settings)
		}
	}
	g.guard = g.sharing(g.deadline, g.changed).Guard(guard.Mode(g.mode), cmp.Or(g.maxWaiting, maxWaiting))
	return g
}

// request returns the request to the guard for a call, and whether anything limits the call.
func (g *gate) request(ctx context.Context, call Call) (q guard.Request, k *known, limited bool, err error) {
	if !g.exemptNone && !call.Outgoing && guard.Exempt(call.Service()) || g.skip != nil && g.skip(ctx, call) {
		return q, nil, false, nil
	}
	limiter, err := g.choose(ctx, call)
	if err != nil {
		return q, nil, true, err
	}
	if guard.IsNil(limiter) {
		return q, nil, false, nil
	}
	k = g.known
	switch l := limiter.(type) {
	case *one:
		k = l.Known
	case *described:
		if limiter, k = l.Limiter, l.known; guard.IsNil(limiter) {
			return q, nil, false, nil
		}
	}
	q = guard.Request{Limiter: limiter, Policies: k.Policies, Permits: 1, Wait: g.wait}
	if g.cost != nil {
		if q.Permits = g.cost(ctx, call); q.Permits == 0 {
			return q, nil, false, nil
		}
		if q.Permits < 0 {
			return q, k, true, guard.Invalidf("grpclimit: Cost is %d, want 0 or more", q.Permits)
		}
	}
	return q, k, true, nil
}

// decide decides a call, and reports it. It says false where nothing limits it.
func (g *gate) decide(ctx context.Context, call Call) (q guard.Request, a guard.Answer, o Outcome, limited bool) {
	q, k, limited, err := g.request(ctx, call)
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
		Result: Result(a.Result), Shadow: g.shadow, Local: a.Local, Cost: q.Permits, Decision: a.Decision, Each: a.Each, Err: a.Err, known: k,
		invalid: a.Invalid,
	}
	if q.Limiter != nil {
		o.Limiter = guard.NameOf(q.Limiter)
	}
	if g.report != nil {
		g.report(ctx, call, o)
	}
	return q, a, o, true
}

// passes says whether a call goes on.
func (g *gate) passes(o *Outcome) bool {
	return g.shadow || o.Result == Acquired || o.Result == FailedOpen
}

// admit decides a call to a server, or a message: it gives the context of one that goes on, nil where nothing limits it, or says with which
// status it does not.
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
		return nil, newRefusal(ctx, &o, subject)
	}
	return guard.NewVisit(ctx, g.guard, q, a, o), nil
}

// settle does what a handler's Settle said.
func (g *gate) settle(call Call, v *visit) {
	if err := v.End(); err != nil && g.unsettled != nil {
		g.unsettled(v.Context, call, err)
	}
}
