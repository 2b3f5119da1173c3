package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Gate decides the requests of one middleware or interceptor. R is a request of its protocol.
type Gate[R any] struct {
	Settings
	*Guard
	Hooks[R]
	outgoing bool
	pauses   Pauses // of outgoing calls
}

// Hooks are the functions of a user that get the requests. Those that are not set have no effect.
type Hooks[R any] struct {
	Choose    func(R) (Limiter, error)
	Skip      func(R) bool
	Cost      func(R) (int64, error)
	Report    func(R, limit.Outcome)
	Unsettled func(R, error)
}

// NewGate returns the gate of a server, or of the outgoing requests of a client.
func NewGate[R any](s Settings, hooks Hooks[R], outgoing bool) *Gate[R] {
	if !outgoing {
		s.MaxWaiting = cmp.Or(s.MaxWaiting, defaultMaxWaiting)
	}
	return &Gate[R]{Settings: s, Guard: s.NewGuard(), Hooks: hooks, outgoing: outgoing}
}

// NewGuard returns a guard with these settings.
func (s *Settings) NewGuard() *Guard {
	return s.Sharing(s.Deadline, s.Changed).Guard(s.Mode, s.MaxWaiting)
}

// Decided is a request that was decided.
type Decided struct {
	Answer
	Request     Request
	Description *Description // of the policies; nil if there is no limiter
	At          time.Time
	Denied      int // the status of HTTP for a denial; 0 for the default
}

// Decide decides a request, and reports it. It returns nil if nothing limits the request.
func (g *Gate[R]) Decide(ctx context.Context, r R) *Decided {
	if g.Skip != nil && g.Skip(r) {
		return nil
	}
	d := &Decided{Denied: g.Denied}
	limiter, err := g.Choose(r)
	if err == nil {
		d.Request = Request{Limiter: undescribed(limiter), Permits: 1}
		if IsNil(d.Request.Limiter) {
			return nil
		}
		d.Description = descriptionOf(limiter)
		d.Request.Policies = d.Description.Policies
		if g.Cost != nil {
			if d.Request.Permits, err = g.Cost(r); err == nil && d.Request.Permits == 0 {
				return nil
			}
		}
	}
	if d.Answer = g.decide(ctx, d.Request, err); d.Request.Limiter != nil {
		d.Limiter = d.Request.Limiter.Name()
	}
	d.Shadow, d.Cost, d.At = g.Shadow, d.Request.Permits, time.Now()
	for _, i := range d.Description.Violated(d.Outcome) {
		d.Violated = append(d.Violated, d.Description.Term(i).Name)
	}
	if g.Report != nil {
		g.Report(r, d.Outcome)
	}
	return d
}

// decide decides a request, or with err one that has no limiter or no valid cost.
func (g *Gate[R]) decide(ctx context.Context, q Request, err error) Answer {
	switch {
	case err != nil && !g.outgoing && !g.InvalidFails && errors.Is(err, limit.ErrInvalidRequest):
		return answer(limit.Invalid, err) // in every mode: a client gains nothing by leaving something out
	case err != nil:
		return g.byMode(err)
	case g.Shadow:
		return g.Ask(ctx, q)
	}
	q.Wait = g.Wait
	if g.outgoing {
		q.Pauses = &g.pauses
		q.Wait = cmp.Or(q.Wait, Forever)
		return g.Ask(ctx, q)
	}
	return overLimit(ctx, time.Now(), g.Ask(ctx, q))
}

// overLimit returns the denial of a request that was over its limit at first, and whose context ended
// while it waited, unless its client has gone.
func overLimit(ctx context.Context, asked time.Time, a Answer) Answer {
	if a.Result != limit.Canceled || a.Decision.RetryAfter <= 0 || errors.Is(ctx.Err(), context.Canceled) {
		return a
	}
	a.Result = limit.Rejected
	a.Decision.RetryAfter = max(1, a.Decision.RetryAfter-time.Since(asked))
	return a
}

// Passes reports whether the request proceeds.
func (d *Decided) Passes() bool { return d.Shadow || Passes(d.Result) }

// NotSent returns the error of an outgoing request that was refused. It wraps the error of the
// middleware, and the reason if there is one.
func (d *Decided) NotSent(err error) error {
	after := d.Decision.RetryAfter
	// Whole seconds, so that equal errors have equal texts.
	seconds := time.Duration(RoundUp(after, time.Second)) * time.Second
	switch {
	case d.Err != nil:
		return fmt.Errorf("%w: %w", err, d.Err)
	case after > 0 && d.Decision.Limit == 0:
		return fmt.Errorf("%w: limiter %q: paused for %v", err, d.Limiter, seconds)
	case after > 0:
		return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time, but in %v", err, d.Limiter, d.Cost, seconds)
	}
	return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time", err, d.Limiter, d.Cost)
}
