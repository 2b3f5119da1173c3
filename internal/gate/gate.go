// Package gate decides the requests of a protocol, for the middleware of HTTP and gRPC, the rules and the rate
// limit service of Envoy. It goes from the choice of their limiters to the settlement of their cost. It names clients
// and policies. Package outage asks the limiters.
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Gate decides the requests of one middleware or interceptor. R is a request of its protocol.
type Gate[R any] struct {
	Settings
	Hooks[R]
	guard      *outage.Guard
	caller     string // begins the text of a panic
	outgoing   bool
	maxWaiting int    // without one in the settings
	pauses     Pauses // of outgoing calls
	quotas     quotas // of their providers
}

// Hooks are the functions of a user that get the requests. Those that are not set have no effect.
type Hooks[R any] struct {
	Choose    func(R) (outage.Limiter, error)
	Skip      func(R) bool
	Cost      func(R) (int64, error)
	Report    func(R, limit.Outcome)
	Unsettled func(R, error)
}

// NewGate returns the gate of a server, or of the outgoing requests of a client.
func NewGate[R any](caller string, s Settings, hooks Hooks[R], outgoing bool) *Gate[R] {
	g := &Gate[R]{Settings: s, Hooks: hooks, guard: s.OpenGuard(), caller: caller, outgoing: outgoing}
	if outgoing {
		g.Wait = cmp.Or(s.Wait, outage.Forever)
	} else {
		g.maxWaiting = defaultMaxWaiting
	}
	return g
}

// Choice is what decides a request: a limiter, or the reason why there is none.
type Choice struct {
	Settings    *Settings
	Limiter     outage.Limiter
	Description *Description // of its policies; nil if there is no limiter
	Err         error        // why there is no limiter
	Banned      bool         // denied without a call of the limiter
	Cost        int64        // 0 for that of the hooks
}

// Decided is a request that was decided.
type Decided struct {
	outage.Answer
	Settings    *Settings
	Request     outage.Request
	Description *Description // of the policies; nil if there is no limiter
	At          time.Time
	Before      *Decided // by what decided and admitted it before; or nil

	finalCost atomic.Int64 // the final cost, or one of the two constants below 0
}

const (
	unsettled       = -1
	handlerReturned = -2 // the handler has returned
)

// Decide decides a request by the limiter that is chosen for it, and reports it. It returns nil if nothing
// limits the request.
func (g *Gate[R]) Decide(ctx context.Context, r R) *Decided {
	if g.Skip != nil && g.Skip(r) {
		return nil
	}
	choice := Choice{Settings: &g.Settings}
	limiter, err := g.Choose(r)
	if err != nil {
		choice.Err = err
		return g.decideOne(ctx, r, &choice)
	}
	if choice.Limiter, choice.Description = split(limiter); choice.Limiter == nil {
		return nil
	}
	if choice.Description.unknownPolicies {
		MustShare(g.caller, g.Mode, choice.Limiter)
	}
	return g.decideOne(ctx, r, &choice)
}

// DecideAll decides a request by several limiters, one after another until one denies, and reports each. It
// returns the last one that decided, and nil for none. The end of the visit refunds those before a
// denial.
func (g *Gate[R]) DecideAll(ctx context.Context, r R, choices []Choice) (last *Decided) {
	if g.Skip != nil && g.Skip(r) {
		return nil
	}
	decided := false
	defer func() {
		if !decided && last != nil { // a callback has panicked
			g.Visit(ctx, last).end(r, last, 0, true)
		}
	}()
	for i := range choices {
		d := g.decideOne(ctx, r, &choices[i])
		if d == nil {
			continue
		}
		d.Before, last = last, d
		if !d.Passes() {
			break
		}
	}
	decided = true
	return last
}

// decideOne decides a request by one limiter. It returns nil if the request costs nothing.
func (g *Gate[R]) decideOne(ctx context.Context, r R, choice *Choice) *Decided {
	s, name, err := choice.Settings, "", choice.Err
	d := &Decided{Settings: s, Description: choice.Description}
	d.finalCost.Store(unsettled)
	q := &d.Request
	if err == nil {
		name = choice.Limiter.Name()
		q.Limiter, q.Policies, q.Permits = choice.Limiter, choice.Description.Policies, cmp.Or(choice.Cost, 1)
		if choice.Cost == 0 && g.Cost != nil {
			if q.Permits, err = g.Cost(r); err == nil && q.Permits == 0 {
				return nil
			}
		}
	}
	q.Each = g.Follows
	q.Mode, q.MaxWaiting = s.Mode, cmp.Or(s.MaxWaiting, g.maxWaiting)
	if !s.Shadow {
		if q.Wait = s.Wait; g.outgoing {
			q.Paused = func(redis bool) time.Duration { return g.pauses.left(name, redis) }
		}
	}
	switch begin := time.Now(); {
	case err != nil:
		d.Answer = g.withoutLimiter(s, err)
	case choice.Banned:
		d.Answer = outage.Answered(limit.Rejected, nil)
	case q.Wait > 0 && !g.outgoing:
		d.Answer = overLimit(ctx, begin, g.guard.Ask(ctx, *q))
	default:
		d.Answer = g.guard.Ask(ctx, *q)
	}
	decided := false
	defer func() {
		if !decided { // a callback has panicked
			g.Visit(ctx, d).end(r, d, 0, true)
		}
	}()
	g.keep(r, d)
	d.Limiter, d.Shadow, d.Cost, d.At = name, s.Shadow, q.Permits, time.Now()
	if d.Result == limit.Rejected {
		for _, i := range d.Description.Violated(d.Outcome) {
			d.Violated = append(d.Violated, d.Description.Term(i).Name)
		}
	}
	if g.Report != nil {
		g.Report(r, d.Outcome)
	}
	decided = true
	return d
}

// withoutLimiter decides a request that has no limiter or no valid cost.
func (g *Gate[R]) withoutLimiter(s *Settings, err error) outage.Answer {
	if !g.outgoing && !s.InvalidFails && errors.Is(err, limit.ErrInvalidRequest) {
		return outage.Answered(limit.Invalid, err) // in every mode: a client gains nothing by leaving something out
	}
	return outage.ByMode(s.Mode, err)
}

// overLimit returns the denial of a request that was over its limit at first, and whose context ended
// while it waited, unless its client has gone.
func overLimit(ctx context.Context, begin time.Time, a outage.Answer) outage.Answer {
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
}

type visitKey[R any] struct{}

type fileVisitKey struct{}

// Visit returns the visit of a request.
func (g *Gate[R]) Visit(ctx context.Context, d *Decided) *Visit[R] {
	return &Visit[R]{ctx, g, d}
}

// Value returns the visit itself for its keys.
func (v *Visit[R]) Value(key any) any {
	if key == (visitKey[R]{}) || key == (fileVisitKey{}) && v.gate.Choices != nil {
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
	return settleVisit(ctx.Value(visitKey[R]{}), pkg, cost)
}

// SettleByFile is SettleIn for the innermost visit that the rules of a file have decided.
func SettleByFile(ctx context.Context, pkg string, cost int64) error {
	return settleVisit(ctx.Value(fileVisitKey{}), pkg, cost)
}

func settleVisit(visit any, pkg string, cost int64) error {
	var err error
	if cost < 0 {
		err = fmt.Errorf("%w: a cost of %d to settle, want 0 or more", rratelimiter.ErrInvalidPermits, cost)
	} else if v, ok := visit.(interface{ settle(cost int64) error }); ok {
		err = v.settle(cost)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	return nil
}

func (v *Visit[R]) settle(cost int64) (err error) {
	if !v.decided.Passes() {
		return nil
	}
	for d := v.decided; d != nil; d = d.Before {
		if failed := d.settle(cost); failed != nil {
			err = errors.Join(failed, err)
		}
	}
	return err
}

// maxPermits bounds what one settlement charges.
const maxPermits = 1 << 53

// settle stores the final cost. After the handler, end settles it by Guard.Settle.
func (d *Decided) settle(cost int64) error {
	if d.Result != limit.Acquired {
		return nil
	}
	taken := d.Request.Permits
	if cost-taken > maxPermits {
		return fmt.Errorf("%w: a cost of %d to settle: at most 2^53 more permits can be charged",
			rratelimiter.ErrInvalidPermits, cost)
	}
	if !d.canSettle(cost) {
		return fmt.Errorf("a limiter of type %T has taken %d permits and cannot settle for %d: %w", d.Request.Limiter,
			taken, cost, errors.ErrUnsupported)
	}
	for {
		before := d.finalCost.Load()
		if before == handlerReturned {
			return errors.New("a final cost was set by Settle after the handler has returned")
		}
		if d.finalCost.CompareAndSwap(before, cost) {
			return nil
		}
	}
}

// canSettle reports whether the cost of a granted request can be changed to a final one.
func (d *Decided) canSettle(cost int64) bool {
	switch taken := d.Request.Permits; {
	case cost == taken || d.Local:
		return true
	case cost > taken:
		return outage.CanCharge(d.Request.Limiter)
	}
	return d.Receipt.Refund != nil
}

// End settles the final cost of a request after its handler has returned, and returns what it has held.
// status is that of the response, 0 if it is unknown. If the request was refused, the decisions before it are
// refunded.
//
// A client that has its response may send the next request at once. So if the grant left no place free, End waits
// until its place is returned, for at most a deadline.
func (v *Visit[R]) End(r R, status int) {
	defer v.waitForPlaces()
	v.end(r, v.decided, status, !v.decided.Passes())
}

// end ends a decision and those before it, also if a callback panics. With free, the request costs nothing.
func (v *Visit[R]) end(r R, d *Decided, status int, free bool) {
	if d.Before != nil {
		defer v.end(r, d.Before, status, free)
	}
	s, cost := d.Settings, d.finalCost.Swap(handlerReturned)
	if !s.Keeps || free || cost >= 0 {
		d.Return()
	}
	if free || cost == unsettled && !s.Keeps && status > 0 && s.Refunds != nil && s.Refunds(status) {
		cost = 0
	}
	if cost >= 0 {
		v.gate.reportUnsettled(r, v.gate.guard.Settle(v.Context, d.Request, d.Answer, cost))
	}
}

// waitForPlaces waits until the places are returned whose grants have left none free.
func (v *Visit[R]) waitForPlaces() {
	var ctx context.Context
	for d := v.decided; d != nil; d = d.Before {
		h := d.Receipt.Hold
		if h == nil || !h.Full || d.Settings.Keeps || v.gate.guard.Down(d.Request.Limiter) {
			continue
		}
		if ctx == nil {
			limited, stop := context.WithTimeout(context.WithoutCancel(v.Context), v.gate.guard.Deadline())
			defer stop()
			ctx = limited
		}
		_ = h.Wait(ctx) // the Client repeats the return if it has failed
	}
}

// Return begins to return what a request has held, if it was limited. It does so once.
func (d *Decided) Return() {
	if d != nil {
		d.Receipt.Hold.Return()
	}
}

// keep begins to renew what a request holds, if its end will be known. A panic of a callback is dropped.
func (g *Gate[R]) keep(r R, d *Decided) {
	if d.Receipt.Hold == nil || d.Settings.Keeps {
		return
	}
	d.Receipt.Hold.Keep(func(err error) {
		defer func() { _ = recover() }()
		g.reportUnsettled(r, err)
	})
}

func (g *Gate[R]) reportUnsettled(r R, err error) {
	if err != nil && g.Unsettled != nil {
		g.Unsettled(r, err)
	}
}
