package grpclimit

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// gate is the common part of all four interceptors.
type gate struct {
	settings
	guard  *guard.Gate
	choose func(context.Context, Call) (Limiter, error)
}

// visit is a call that a server's gate admitted, and the context of its handler.
type visit = guard.Visit[guard.GRPC]

func newGate(interceptor string, choose func(context.Context, Call) (Limiter, error), opts []Option,
	client bool) *gate {
	if choose == nil {
		panic(fmt.Sprintf("grpclimit: %s: choose is nil: pass All, Each or a function that returns a Limiter", interceptor))
	}
	g := &gate{choose: choose}
	g.settings = settings{policies: guard.Describe(), Settings: guard.NewSettings()}
	g.pauseOn = []func(*status.Status) (time.Duration, bool){RetryInfo()}
	guard.Apply(&g.settings, opts)
	if guard.SameCode(choose, All(nil)) {
		l, _ := choose(context.Background(), Call{}) // it never fails
		guard.MustShare("grpclimit: "+interceptor, g.Mode, l, g.policies)
	}
	if client {
		g.guard = g.Outgoing()
	} else {
		g.guard = g.Incoming()
	}
	return g
}

// request returns the guard's request for a call. It reports in limited whether anything limits the
// call.
func (g *gate) request(ctx context.Context, call Call) (
	q guard.Request, d *guard.Description, limited bool, err error,
) {
	if !g.LimitsHealth && !call.Outgoing && guard.Exempt(call.Method) || g.skip != nil && g.skip(ctx, call) {
		return q, nil, false, nil
	}
	limiter, err := g.choose(ctx, call)
	if err != nil {
		return q, nil, true, err
	}
	if limiter, d = guard.Unwrap(limiter, g.policies); guard.IsNil(limiter) {
		return q, nil, false, nil
	}
	q = guard.Request{Limiter: limiter, Policies: d.Policies, Permits: 1}
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

// decided is the Outcome of a call, and what it was made of.
type decided struct {
	limit.Outcome
	request  guard.Request
	answer   guard.Answer
	policies *guard.Description
}

// decide decides a call, and reports it. It returns nil if nothing limits the call.
func (g *gate) decide(ctx context.Context, call Call) *decided {
	q, d, limited, err := g.request(ctx, call)
	if !limited {
		return nil
	}
	a := g.guard.Decide(ctx, q, err)
	o := &decided{limit.Outcome{
		Result: a.Result, Shadow: g.Shadow, Local: a.Local, Limiter: guard.NameOf(q.Limiter), Cost: q.Permits,
		Decision: a.Decision, Each: a.Each, Violated: d.Names(d.Violated(a, q.Permits)), Err: a.Err,
	}, q, a, d}
	if g.report != nil {
		g.report(ctx, call, o.Outcome)
	}
	return o
}

func (g *gate) passes(o *decided) bool { return g.Shadow || guard.Passes(o.answer.Result) }

// admit decides a call to a server. It returns the visit of a call that proceeds, nil if nothing
// limits the call, or the refusal.
func (g *gate) admit(ctx context.Context, call Call) (*visit, *refusal) {
	o := g.decide(ctx, call)
	if o == nil {
		return nil, nil
	}
	if !g.passes(o) {
		return nil, newRefusal(ctx, o, g.Spread)
	}
	return guard.NewVisit[guard.GRPC](ctx, g.guard.Guard, o.request, o.answer, o.Outcome), nil
}

func (g *gate) settle(call Call, v *visit) {
	if err := v.End(); err != nil && g.unsettled != nil {
		g.unsettled(v.Context, call, err)
	}
}
