// Package gate decides the requests of a protocol, for the middleware of HTTP and gRPC and the rules. A [Visit] is
// one request, from the choice of its limiter to the settlement of its cost. Package outage asks the limiters.
//
//	gate.go         what decides the requests of one middleware
//	visit.go        one request
//	choose.go       the ready-made choosers
//	joint.go        limiters that one call of Redis decides
//	description.go  policies, as clients see them
//	settings.go     the options that HTTP and gRPC have in common
//	pause.go        pauses that a server asks of a client
//	quota.go        the count of a provider, which a client follows
package gate

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Request is a request of a protocol: a *http.Request, or a [Call] of gRPC.
type Request[R any] interface {
	Context() context.Context
	WithContext(ctx context.Context) R
}

// Call is a call of gRPC in its context. C describes the call.
type Call[C any] struct {
	In   context.Context //nolint:containedctx // as in a http.Request
	Call C
}

// Context returns the context of the call.
func (c Call[C]) Context() context.Context { return c.In }

// WithContext returns the call in another context.
func (c Call[C]) WithContext(ctx context.Context) Call[C] { return Call[C]{ctx, c.Call} }

// Chooser chooses what limits a request.
type Chooser[R Request[R]] interface {
	// Choose returns the visits of a request in the order in which they are decided, none if nothing limits it. It
	// returns the request in the context in which its callbacks get it. The fields of a Visit that a chooser
	// sets are the first ones.
	Choose(r R) (R, []Visit[R])
}

// Options are the settings of one middleware or interceptor, and the functions of its user. Those that are not set
// have no effect.
type Options[R Request[R]] struct {
	Settings
	Chooser   Chooser[R]
	Skip      func(R) bool
	Cost      func(R) (int64, error)
	Report    func(R, limit.Outcome)
	Unsettled func(R, error)
}

// Gate decides the requests of one middleware or interceptor.
type Gate[R Request[R]] struct {
	Options[R]
	guard      *outage.Guard
	caller     string // begins the text of a panic
	outgoing   bool
	maxWaiting int    // without one in the settings
	pauses     Pauses // of outgoing calls
	quotas     quotas // of their providers
}

// NewGate returns the gate of a server, or of the outgoing requests of a client.
func NewGate[R Request[R]](caller string, o Options[R], outgoing bool) *Gate[R] {
	g := &Gate[R]{Options: o, guard: o.OpenGuard(), caller: caller, outgoing: outgoing}
	if outgoing {
		g.Wait = cmp.Or(o.Wait, outage.Forever)
	} else {
		g.maxWaiting = defaultMaxWaiting
	}
	return g
}

// Admit decides a request by what is chosen for it, one after another until one denies, and reports each decision. It
// returns the last visit, nil if nothing limits the request. The end of that visit refunds those before a denial.
func (g *Gate[R]) Admit(r R) (last *Visit[R]) {
	if g.Skip != nil && g.Skip(r) {
		return nil
	}
	r, visits := g.Chooser.Choose(r)
	returned := false
	defer func() {
		if !returned && last != nil { // a callback has panicked
			last.end(0, true)
		}
	}()
	for i := range visits {
		v := &visits[i]
		v.gate, v.Request, v.Context = g, r, r.Context()
		if !g.decide(v) {
			continue
		}
		v.Before, last = last, v
		g.report(v)
		if !v.Passes() {
			break
		}
	}
	returned = true
	return last
}

// decide decides a visit. It returns false if the request costs nothing.
func (g *Gate[R]) decide(v *Visit[R]) bool {
	if v.Settings == nil {
		v.Settings = &g.Settings
	}
	v.finalCost.Store(unsettled)
	s, ask, err := v.Settings, &v.Ask, v.Outcome.Err
	if err == nil && ask.Permits == 0 {
		if ask.Permits = 1; g.Cost != nil {
			if ask.Permits, err = g.Cost(v.Request); err == nil && ask.Permits == 0 {
				return false
			}
		}
	}
	ask.Each, ask.Mode, ask.MaxWaiting = g.Follows, s.Mode, cmp.Or(s.MaxWaiting, g.maxWaiting)
	if !s.Shadow {
		if ask.Wait = s.Wait; g.outgoing && ask.Limiter != nil {
			name := ask.Limiter.Name()
			ask.Paused = func(redis bool) time.Duration { return g.pauses.left(name, redis) }
		}
	}
	switch begin := time.Now(); {
	case err != nil:
		v.Answer = g.withoutLimiter(s, err)
	case v.Banned:
		v.Answer = outage.Answered(limit.Rejected, nil)
	default:
		if v.Description.unknownPolicies {
			MustShare(g.caller, s.Mode, ask.Limiter)
		}
		ask.Policies = v.Description.Policies
		v.Answer = g.guard.Ask(v.Context, *ask)
		if ask.Wait > 0 && !g.outgoing {
			v.overLimit(begin)
		}
	}
	return true
}

// withoutLimiter decides a request that has no limiter or no valid cost.
func (g *Gate[R]) withoutLimiter(s *Settings, err error) outage.Answer {
	if !g.outgoing && !s.InvalidFails && errors.Is(err, limit.ErrInvalidRequest) {
		return outage.Answered(limit.Invalid, err) // in every mode: a client gains nothing by leaving something out
	}
	return outage.ByMode(s.Mode, err)
}

// report completes the outcome of a visit, and reports it.
func (g *Gate[R]) report(v *Visit[R]) {
	v.keep()
	v.Shadow, v.Cost, v.At = v.Settings.Shadow, v.Ask.Permits, time.Now()
	if v.Ask.Limiter != nil {
		v.Limiter = v.Ask.Limiter.Name()
	}
	if v.Result == limit.Rejected {
		for _, i := range v.Denying() {
			v.Violated = append(v.Violated, v.Description.Term(i).Name)
		}
	}
	if g.Report != nil {
		g.Report(v.Request, v.Outcome)
	}
}

func (g *Gate[R]) reportUnsettled(r R, err error) {
	if err != nil && g.Unsettled != nil {
		g.Unsettled(r, err)
	}
}

// Spread adds a random part to the times after which clients retry, so that clients that were
// refused at the same time do not return at the same time.
type Spread struct {
	Most   time.Duration       // 0 for none
	Random func(n int64) int64 // returns a number from 0 to n-1
}

// Add returns a random time of at least after, and less than Most above it. A time of 0, which
// means that no retry helps, stays 0.
func (s Spread) Add(after time.Duration) time.Duration {
	if s.Most <= 0 || after <= 0 {
		return after
	}
	return max(after, after+time.Duration(s.Random(int64(s.Most)))) // the sum may overflow
}

// RoundUp returns d in whole units, rounded up.
func RoundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
