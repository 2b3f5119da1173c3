package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// call is a Call, and the context that belongs to it.
type call struct {
	context.Context
	Call
}

// gate is the common part of all four interceptors.
type gate struct {
	*guard.Gate[call]
	pauseOn []func(*status.Status) (time.Duration, bool)
}

func newGate(interceptor string, choose func(context.Context, Call) (Limiter, error), opts []Option,
	client bool) *gate {
	at := "grpclimit: " + interceptor
	if choose == nil {
		panic(at + ": choose is nil: pass All, Each or a function that returns a Limiter")
	}
	s := &settings{Settings: guard.NewSettings()}
	s.Choose = func(c call) (Limiter, error) { return choose(c.Context, c.Call) }
	s.pauseOn = []func(*status.Status) (time.Duration, bool){RetryInfo()}
	guard.Apply(&s.Settings, opts, func(o Option) { o.apply(s) })
	if skip := s.Skip; !client && !s.LimitsHealth {
		s.Skip = func(c call) bool { return guard.Exempt(c.Method) || skip != nil && skip(c) }
	}
	return &gate{guard.NewGate(at, s.Settings, s.Hooks, client), s.pauseOn}
}

// admit decides a call to a server. It returns the visit of a call that proceeds, nil if nothing
// limits the call, or the refusal.
func (g *gate) admit(c call) (*guard.Visit[call], *refusal) {
	d := g.Decide(c.Context, c)
	switch {
	case d == nil:
		return nil, nil
	case !d.Passes():
		return nil, newRefusal(c.Context, d, g.Spread)
	}
	return g.Visit(c.Context, d), nil
}
