package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Gate decides the requests of one middleware or interceptor. R is a request of its protocol.
type Gate[R any] struct {
	Settings
	Hooks[R]
	guard    *Guard
	caller   string // begins the text of a panic
	outgoing bool
	request  Request // as each one begins
	pauses   Pauses  // of outgoing calls
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
func NewGate[R any](caller string, s Settings, hooks Hooks[R], outgoing bool) *Gate[R] {
	if !outgoing {
		s.MaxWaiting = cmp.Or(s.MaxWaiting, defaultMaxWaiting)
	}
	g := &Gate[R]{Settings: s, Hooks: hooks, guard: s.NewGuard(), caller: caller, outgoing: outgoing,
		request: Request{Permits: 1, Mode: s.Mode, MaxWaiting: s.MaxWaiting, Wait: s.Wait}}
	switch {
	case s.Shadow:
		g.request.Wait = 0
	case outgoing:
		g.request.Wait, g.request.Pauses = cmp.Or(s.Wait, Forever), &g.pauses
	}
	return g
}

// Decided is a request that was decided.
type Decided struct {
	Answer
	Request     Request
	Description *Description // of the policies; nil if there is no limiter
	At          time.Time
	Denied      int // the status of HTTP for a denial; 0 for the default

	ended atomic.Bool // it holds nothing more
}

// Decide decides a request, and reports it. It returns nil if nothing limits the request.
func (g *Gate[R]) Decide(ctx context.Context, r R) *Decided {
	if g.Skip != nil && g.Skip(r) {
		return nil
	}
	d, name := &Decided{Denied: g.Denied}, ""
	limiter, err := g.Choose(r)
	if err == nil {
		l, description := describedBy(limiter)
		if l == nil {
			return nil
		}
		if description.unshared {
			MustShare(g.caller, g.Mode, l)
		}
		d.Description, name = description, l.Name()
		d.Request = g.request
		d.Request.Limiter, d.Request.Policies = l, description.Policies
	}
	if err == nil && g.Cost != nil {
		if d.Request.Permits, err = g.Cost(r); err == nil && d.Request.Permits == 0 {
			return nil
		}
	}
	switch begin := time.Now(); {
	case err != nil:
		d.Answer = g.withoutLimiter(err)
	case d.Request.Wait > 0 && !g.outgoing:
		d.Answer = overLimit(ctx, begin, g.guard.Ask(ctx, d.Request))
	default:
		d.Answer = g.guard.Ask(ctx, d.Request)
	}
	d.Limiter, d.Shadow, d.Cost, d.At = name, g.Shadow, d.Request.Permits, time.Now()
	if d.Result == limit.Rejected {
		for _, i := range d.Description.Violated(d.Outcome) {
			d.Violated = append(d.Violated, d.Description.Term(i).Name)
		}
	}
	if g.Report != nil {
		g.Report(r, d.Outcome)
	}
	return d
}

// withoutLimiter decides a request that has no limiter or no valid cost.
func (g *Gate[R]) withoutLimiter(err error) Answer {
	if !g.outgoing && !g.InvalidFails && errors.Is(err, limit.ErrInvalidRequest) {
		return answer(limit.Invalid, err) // in every mode: a client gains nothing by leaving something out
	}
	return byMode(g.Mode, err)
}

// overLimit returns the denial of a request that was over its limit at first, and whose context ended
// while it waited, unless its client has gone.
func overLimit(ctx context.Context, begin time.Time, a Answer) Answer {
	if a.Result != limit.Canceled || a.Decision.RetryAfter <= 0 || errors.Is(ctx.Err(), context.Canceled) {
		return a
	}
	a.Result = limit.Rejected
	a.Decision.RetryAfter = max(1, a.Decision.RetryAfter-time.Since(begin))
	return a
}

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

// Visit is a request that a middleware has decided, and the context of the handler that gets it: that of
// an admitted request, or of a refusal. R is a request of its protocol: a gRPC server may be a handler of
// HTTP.
type Visit[R any] struct {
	context.Context
	gate    *Gate[R]
	decided *Decided
	settled atomic.Int64 // the final cost, or one of the two constants below 0
}

const (
	unsettled = -1
	over      = -2 // the handler has returned
)

type visitKey[R any] struct{}

// Visit returns the visit of a request.
func (g *Gate[R]) Visit(ctx context.Context, d *Decided) *Visit[R] {
	v := &Visit[R]{Context: ctx, gate: g, decided: d}
	v.settled.Store(unsettled)
	return v
}

// Value returns the visit itself for its key.
func (v *Visit[R]) Value(key any) any {
	if key == (visitKey[R]{}) {
		return v
	}
	return v.Context.Value(key)
}

// OutcomeOf returns the Outcome of the innermost visit of a context, false for none.
func OutcomeOf[R any](ctx context.Context) (limit.Outcome, bool) {
	v, ok := ctx.Value(visitKey[R]{}).(*Visit[R])
	if !ok {
		return limit.Outcome{}, false
	}
	return v.decided.Outcome, true
}

// SettleIn sets the final cost of the innermost visit of a context. It does nothing for a request that
// has taken no permits. Errors begin with the name of the package.
func SettleIn[R any](ctx context.Context, pkg string, cost int64) error {
	v, _ := ctx.Value(visitKey[R]{}).(*Visit[R])
	if err := v.settle(cost); err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	return nil
}

func (v *Visit[R]) settle(cost int64) error {
	if cost < 0 {
		return fmt.Errorf("%w: a cost of %d to settle, want 0 or more", rratelimiter.ErrInvalidPermits, cost)
	}
	if v == nil || v.decided.Result != limit.Acquired {
		return nil
	}
	d := v.decided
	taken := d.Request.Permits
	if cost-taken > maxPermits {
		return fmt.Errorf("%w: a cost of %d to settle: at most 2^53 more permits can be charged",
			rratelimiter.ErrInvalidPermits, cost)
	}
	if !d.settles(d.Request, cost) {
		return fmt.Errorf("a limiter of type %T has taken %d permits and cannot settle for %d: %w", d.Request.Limiter,
			taken, cost, errors.ErrUnsupported)
	}
	for {
		before := v.settled.Load()
		if before == over {
			return errors.New("Settle after the handler has returned")
		}
		if v.settled.CompareAndSwap(before, cost) {
			return nil
		}
	}
}

// End settles the final cost of a request after its handler has returned, and returns what it has held.
// status is that of the response, 0 if it is unknown.
func (v *Visit[R]) End(r R, status int) {
	cost := v.settled.Swap(over)
	if cost == unsettled && status > 0 && v.gate.Refunds != nil && v.gate.Refunds(status) {
		cost = 0
	}
	if d := v.decided; cost >= 0 {
		a := d.Answer
		a.Receipt.Return = nil
		v.gate.reportUnsettled(r, v.gate.guard.Settle(v.Context, d.Request, a, cost))
	} else if v.gate.Keeps {
		return
	}
	v.gate.Return(v.Context, r, v.decided)
}

// returnFor is how long after a request what it has held can be returned, if Redis is down until then.
const returnFor = 5 * time.Second

// Return returns what a request has held until its end, once. It does so in the background, where a panic
// of a callback is dropped.
func (g *Gate[R]) Return(ctx context.Context, r R, d *Decided) {
	if d.Receipt.Return == nil || !d.ended.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer func() { _ = recover() }()
		end := time.Now().Add(returnFor)
		err := g.guard.Settle(ctx, d.Request, d.Answer, d.Request.Permits)
		for g.guard.notRun(d.Request.Limiter, err) && time.Now().Before(end) {
			time.Sleep(g.guard.deadline())
			err = g.guard.Settle(ctx, d.Request, d.Answer, d.Request.Permits)
		}
		g.reportUnsettled(r, err)
	}()
}

// notRun reports whether a call was not sent in an outage, or refused by the error that began it.
func (g *Guard) notRun(l Limiter, err error) bool {
	var refused *rueidis.RedisError
	return errors.Is(err, ErrDown) || errors.As(err, &refused) && g.breakerOf(l).down.Load()
}

func (g *Gate[R]) reportUnsettled(r R, err error) {
	if err != nil && g.Unsettled != nil {
		g.Unsettled(r, err)
	}
}
