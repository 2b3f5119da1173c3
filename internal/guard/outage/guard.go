// Package outage decides requests while Redis may fail: for the middleware of HTTP and gRPC, package
// fallback, the rules and the rate limit service of Envoy. It detects when an outage begins and ends. It knows
// no request of a protocol.
//
// A [Guard] asks the limiter for each request, and gives Redis a deadline. docs/reliability.md defines an
// outage. A breaker keeps the state of each node, and a prober checks a node that is down. If a caller
// leaves before its call is answered, a probe checks whether the node is down. So an outage delays
// only the requests that arrive before it is detected, by a deadline each, and those that wait for
// permits then, by three. No goroutine is left behind.
//
// A decision from memory, of a denial cache ([rratelimiter.WithDenialCache]) or a prefetch
// ([rratelimiter.WithPrefetch]), is valid, but no answer of Redis.
package outage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Guard decides requests. Its state is whether each node of Redis is up, the permits granted without
// Redis, and the number of waiters. It is safe for concurrent use.
type Guard struct {
	nodes
	local   buckets
	waiting atomic.Int64
}

// Changed is the callback of an outage: with the address of its node, "" if that is unknown, and with
// the error that began it.
type Changed = func(node string, up bool, err error)

// New returns a guard. Its callback may be nil. It receives each change of the state of a node in
// order. No lock is held. The request or the prober that observes the change calls it, or a goroutine that is in
// the callback of an earlier one.
func New(deadline time.Duration, changed Changed) *Guard {
	g := &Guard{nodes: nodes{reports: reports{changed: changed}}, local: buckets{clock: clock{time.Now()}}}
	g.SetDeadline(deadline)
	return g
}

// SetDeadline sets the deadline of calls and probes.
func (g *Guard) SetDeadline(d time.Duration) { g.deadline.Store(int64(d)) }

// Demand is what a request wants of a limiter: permits, at once or after a wait.
type Demand struct {
	Limiter    limit.Joinable
	Each       bool  // the Answer has the decision of each policy, even of one alone
	Permits    int64 // at least 1
	Mode       limit.FailureMode
	Wait       time.Duration // the longest wait in place of a denial; 0 for none, or inside.Forever
	MaxWaiting int           // bounds the requests that wait at once; 0 for no bound
	// Paused returns the rest of a pause of outgoing calls, by the name of the limiter. inRedis reports that Redis
	// denies calls meanwhile by itself. Paused is nil for the requests of a server.
	Paused func(name string) (rest time.Duration, inRedis bool)
}

// Answer is the result of a request, and its reasons. A Guard sets Result, Local, Decision, Each and
// Err of the Outcome.
type Answer struct {
	limit.Outcome
	Receipt receipt.Receipt // of the permits, if Result is Acquired

	fromMemory bool // decided by a prefetch or a denial cache
	paused     bool // denied by a pause that a server asked for
}

// Passes reports whether the request proceeds.
func (a Answer) Passes() bool {
	return a.Shadow || a.Result == limit.Acquired || a.Result == limit.FailedOpen
}

// RetryAfter returns the time after which a retry of a refused request may succeed, 0 for never.
func (a Answer) RetryAfter() time.Duration {
	switch a.Result {
	case limit.FailedClosed:
		return time.Second
	case limit.Rejected:
		return a.Decision.RetryAfter
	}
	return 0
}

// Answered returns an answer with a result and its reason.
func Answered(r limit.Result, err error) (a Answer) {
	a.Result, a.Err = r, err
	return a
}

// pausedFor returns the denial of a request during a pause.
func pausedFor(left time.Duration) (a Answer) {
	a.Result, a.paused, a.Decision.RetryAfter = limit.Rejected, true, left
	return a
}

// localPoll is the time after which a request that waits for this process, in its share of the limit or
// in a pause, asks Redis again.
const localPoll = time.Second

// Decide decides a request. If Redis denies it and it may wait, it waits in the queue of its limiter. In a pause, or if a
// local share denies it, it asks again at the time of the next try.
func (g *Guard) Decide(ctx context.Context, d Demand) Answer {
	begin, counted := time.Now(), false
	a := g.try(ctx, d)
	for d.Wait != 0 {
		if d.Paused != nil && a.Passes() {
			if rest := d.pause(a.Result == limit.Acquired && !a.Local); rest > 0 {
				// The pause began during the call or the wait, so the permit is too early: refund it. A permit
				// that cannot be refunded is lost.
				a.Receipt.Hold.Return()
				_ = g.Settle(ctx, d.Limiter, a, 0)
				a = pausedFor(rest)
			}
		}
		after, left := a.Decision.RetryAfter, d.Wait
		if d.Wait > 0 {
			left = d.Wait - time.Since(begin)
		}
		queues := a.Err == nil && !a.paused // Redis has denied it
		if a.Result != limit.Rejected || d.Wait > 0 && a.earliestGrant(d.Limiter) > left || after <= 0 && !queues {
			return a
		}
		if !counted {
			defer g.waiting.Add(-1)
			if n := g.waiting.Add(1); d.MaxWaiting > 0 && n > int64(d.MaxWaiting) {
				a.Err = ErrTooManyWaiting
				return a
			}
			counted = true
		}
		if queues {
			if d.Wait > 0 {
				left = max(1, left)
			}
			if a = g.waitInQueue(ctx, d, a, left); a.Result == limit.Rejected && !a.Local {
				return a
			}
			continue
		}
		if err := a.sleep(ctx); err != nil {
			canceled := Answered(limit.Canceled, err)
			canceled.Decision, canceled.Each = a.Decision, a.Each
			return canceled
		}
		a = g.try(ctx, d)
	}
	return a
}

// pause returns the rest of a pause of the limiter, 0 for none. If Redis decides, only one that it does not know
// counts.
func (d Demand) pause(byRedis bool) time.Duration {
	rest, inRedis := d.Paused(d.Limiter.Name())
	if byRedis && inRedis {
		return 0
	}
	return rest
}

// earliestGrant returns the time before which a denied request is not granted. It leaves out permits that are
// held, whose RetryAfter is a guess.
func (a Answer) earliestGrant(l limit.Joinable) (after time.Duration) {
	policies := PoliciesOf(l)
	if !slices.ContainsFunc(policies, isHeld) {
		return a.Decision.RetryAfter
	}
	for i, one := range a.Each {
		if len(a.Each) == len(policies) && !isHeld(policies[i]) {
			after = max(after, one.RetryAfter)
		}
	}
	return after
}

// sleep waits until a request that a pause or a local share has denied is to ask again. It fails at once if no grant is
// possible before ctx ends.
func (a Answer) sleep(ctx context.Context) error {
	whole, poll := a.Decision.RetryAfter, min(a.Decision.RetryAfter, localPoll)
	if a.Local {
		whole = poll // Redis may grant before the share does
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < whole {
		return context.DeadlineExceeded
	}
	select {
	case <-time.After(poll):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// try asks once: a pause, Redis, or without it the mode decides. A request that may wait without a bound waits in
// the queue of its limiter.
func (g *Guard) try(ctx context.Context, d Demand) Answer {
	b := g.breakerOf(d.Limiter)
	if d.Paused != nil {
		if rest := d.pause(!b.isDown()); rest > 0 {
			return pausedFor(rest)
		}
	}
	if g.local.nextSweep.Load() != 0 { // there are shares
		g.local.sweepIfDue()
	}
	if b.isDown() && !b.allows(ctx, d.Limiter) {
		return g.withoutRedis(d, b.notSent(d.Limiter))
	}
	// A request that waits without a bound joins the queue at once, for a deadline, and so overtakes no other.
	limited, wait := ctx, g.Deadline()
	if d.Wait != inside.Forever || d.MaxWaiting > 0 {
		var stop context.CancelFunc
		limited, stop = context.WithTimeout(ctx, wait)
		defer stop()
		wait = 0
	}
	a, err := d.call(limited, wait)
	if err != nil {
		return g.afterError(ctx, b, d, a, err)
	}
	return b.finish(ctx, d.Limiter, a)
}

// call asks the limiter once, or waits in its queue for at most a time, or inside.Forever.
func (d Demand) call(ctx context.Context, wait time.Duration) (a Answer, err error) {
	h, ok := inside.HandleOf(d.Limiter)
	if !ok {
		return a, errZero(d.Limiter)
	}
	ask, r := engine.Ask{Permits: d.Permits, Detail: true, Each: d.Each, Receipt: true}, engine.Result{}
	if wait == 0 {
		err = h.Try(ctx, ask, &r)
	} else {
		end, deadline := time.Now().Add(wait), time.Time{}
		if wait != inside.Forever {
			deadline = end
		}
		r.Allowed, err = h.Wait(ctx, ask, deadline, &r)
		_, ends := ctx.Deadline()
		if ends && ctx.Err() == nil && isTimeout(err) && (wait == inside.Forever || time.Now().Before(end)) {
			err = &tooLateError{err}
		}
	}
	a.Decision, a.fromMemory = rratelimiter.Decision(r.Decision), r.From != engine.FromRedis
	for _, part := range r.Parts {
		a.Each = append(a.Each, rratelimiter.Decision(part))
	}
	a.Receipt = receipt.Receipt{Permits: d.Permits, Refund: r.Refund, Hold: r.Hold}
	return a, err
}

// tooLateError is the error of a wait that ends early: no permits are free before the deadline of its context.
type tooLateError struct{ error }

// isTimeout reports whether a wait has ended, and not the time to make a connection.
func isTimeout(err error) bool {
	var dialed *net.OpError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dialed)
}

// waitInQueue waits in the queue of a limiter after its denial, for at most a time, or inside.Forever. If Redis is
// down meanwhile, the wait ends.
func (g *Guard) waitInQueue(ctx context.Context, d Demand, denied Answer, most time.Duration) Answer {
	up, stop := g.whileUp(ctx, d.Limiter)
	defer stop()
	a, err := d.call(up, most)
	b := g.breakerOf(d.Limiter)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(context.Cause(up), ErrDown):
		return g.afterError(ctx, b, d, denied, b.notSent(d.Limiter))
	case err != nil && d.Wait > 0 && up.Err() == nil && isTimeout(err) && !b.isSilent():
		return denied // the wait is over, and Redis still has time to answer
	case err != nil:
		return g.afterError(ctx, b, d, denied, err)
	case a.Decision.Allowed:
		return b.finish(ctx, d.Limiter, a)
	}
	if a.Decision.Limit > 0 && !slices.ContainsFunc(PoliciesOf(d.Limiter), isHeld) { // else its RetryAfter is for the queue
		denied.Decision, denied.Each = a.Decision, a.Each
	}
	return denied
}

// finish records the answer to a request, and sets its result.
func (b *breaker) finish(ctx context.Context, l limit.Joinable, a Answer) Answer {
	if a.Decision.Allowed {
		if a.Result = limit.Acquired; a.fromMemory {
			return a
		}
		if b.lastAnswer.Store(b.now()); b.isDown() {
			reported := false
			defer func() { // a callback may panic, and then the caller does not get the answer
				if !reported {
					a.Receipt.Hold.Return()
				}
			}()
			b.endOutage(l)
			reported = true
		}
		return a
	}
	if a.Result = limit.Rejected; !a.fromMemory {
		b.recordAnswer(ctx, l)
	} else if b.isDown() {
		b.verify(ctx, l)
	}
	return a
}

// afterError decides a request after an error of its limiter. The answer has the numbers of an earlier one.
func (g *Guard) afterError(ctx context.Context, b *breaker, d Demand, a Answer, err error) Answer {
	a.Err = err
	var late *tooLateError
	switch {
	case errors.As(err, &late):
		a.Result, a.Err = limit.Canceled, late.error
		return a
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		a.Result = limit.Rejected // no wait helps
		return a
	case ctx.Err() != nil:
		b.verify(ctx, d.Limiter)
		a.Result = limit.Canceled
		return a
	}
	err = b.explain(d.Limiter, err)
	b.recordError(ctx, d.Limiter, err)
	if IsMistake(err) {
		return ByMode(d.Mode, err)
	}
	return g.withoutRedis(d, err)
}

// withoutRedis decides a request by the mode. A request that Redis would never grant is denied.
func (g *Guard) withoutRedis(d Demand, err error) Answer {
	if mistake := CheckLimiter(d.Limiter); mistake != nil {
		return ByMode(d.Mode, mistake)
	}
	for _, m := range membersOf(d.Limiter) { // not their initial rates: Redis may have others
		if kind, known := policy.Of(m.Policy); known && kind.Most < d.Permits {
			return Answered(limit.Rejected, fmt.Errorf("%w: %d permits of limiter %q, at most %d can be granted",
				rratelimiter.ErrPermitsExceedRate, d.Permits, d.Limiter.Name(), kind.Most))
		}
	}
	if share := float64(d.Mode); share > 0 {
		if o, r, ok := g.local.decide(d.Limiter, d.Permits, share); ok {
			o.Err = err
			return Answer{Outcome: o, Receipt: r}
		}
	}
	return ByMode(d.Mode, err)
}

// ByMode answers a request that neither Redis nor a local share has decided. Local is Closed for it. So is
// Open for a mistake of the program.
func ByMode(mode limit.FailureMode, err error) Answer {
	if mode == limit.Open && !IsMistake(err) {
		return Answered(limit.FailedOpen, err)
	}
	return Answered(limit.FailedClosed, err)
}

// Settle changes the permits that a granted request has taken of a limiter to its final cost. What it holds stays. It
// has the guard's deadline, even if ctx has ended.
func (g *Guard) Settle(ctx context.Context, l limit.Joinable, a Answer, cost int64) error {
	switch {
	case a.Result != limit.Acquired || cost == a.Receipt.Permits:
		return nil
	case a.Local:
		return a.Receipt.Settle(ctx, cost, "", nil)
	}
	b := g.breakerOf(l)
	if b.isDown() {
		return b.notSent(l)
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), g.Deadline())
	defer stop()
	err := a.Receipt.Settle(limited, cost, "", chargeOf(l))
	if err != nil { // nil is no answer of Redis: some settlements send nothing
		err = b.explain(l, err)
		b.recordError(ctx, l, err)
	}
	return err
}

// Down reports whether the node of a limiter is down.
func (g *Guard) Down(l limit.Joinable) bool { return g.breakerOf(l).isDown() }
