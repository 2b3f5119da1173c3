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

// A request for permits of a limiter, its answer, and the call that gets it.

// Forever is a wait that ends only with the request's context.
const Forever = inside.Forever

// Ask is a request for permits of a limiter.
type Ask struct {
	Limiter    Limiter
	Each       bool  // the Answer has the decision of each policy, even of one alone
	Permits    int64 // at least 1
	Mode       limit.FailureMode
	Wait       time.Duration // the longest wait in place of a denial; 0 for none, or Forever
	MaxWaiting int           // bounds the requests that wait at once; 0 for no bound
	// Paused returns how long a pause of outgoing calls still lasts; with redis, one that Redis does not know. It is
	// nil for others.
	Paused func(redis bool) time.Duration
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
func (g *Guard) Decide(ctx context.Context, q Ask) Answer {
	begin, counted := time.Now(), false
	a := g.try(ctx, q)
	for q.Wait != 0 {
		if q.Paused != nil && a.Passes() {
			if left := q.Paused(a.Result == limit.Acquired && !a.Local); left > 0 {
				// The pause began during the call or the wait, so the permit is too early: refund it. A permit
				// that cannot be refunded is lost.
				a.Receipt.Hold.Return()
				_ = g.Settle(ctx, q, a, 0)
				a = pausedFor(left)
			}
		}
		after, left := a.Decision.RetryAfter, q.Wait
		if q.Wait > 0 {
			left = q.Wait - time.Since(begin)
		}
		queues := a.Err == nil && !a.paused // Redis has denied it
		if a.Result != limit.Rejected || q.Wait > 0 && a.earliestGrant(q) > left || after <= 0 && !queues {
			return a
		}
		if !counted {
			defer g.waiting.Add(-1)
			if n := g.waiting.Add(1); q.MaxWaiting > 0 && n > int64(q.MaxWaiting) {
				a.Err = ErrTooManyWaiting
				return a
			}
			counted = true
		}
		if queues {
			if q.Wait > 0 {
				left = max(1, left)
			}
			if a = g.waitInQueue(ctx, q, a, left); a.Result == limit.Rejected && !a.Local {
				return a
			}
			continue
		}
		if err := a.sleep(ctx); err != nil {
			canceled := Answered(limit.Canceled, err)
			canceled.Decision, canceled.Each = a.Decision, a.Each
			return canceled
		}
		a = g.try(ctx, q)
	}
	return a
}

// earliestGrant returns the time before which a denied request is not granted. It leaves out permits that are
// held, whose RetryAfter is a guess.
func (a Answer) earliestGrant(q Ask) (after time.Duration) {
	policies := PoliciesOf(q.Limiter)
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

// sleep waits until a request that a pause or a local share has denied is to ask again. It fails at once if ctx ends
// before it could be granted.
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

// try asks once for a request: it is decided by a pause, by Redis, or without it by the mode. One that may
// wait without a bound waits in the queue of its limiter.
func (g *Guard) try(ctx context.Context, q Ask) (a Answer) {
	b := g.breakerOf(q.Limiter)
	if q.Paused != nil {
		if left := q.Paused(!b.isDown()); left > 0 {
			return pausedFor(left)
		}
	}
	if g.local.nextSweep.Load() != 0 { // there are shares
		g.local.sweepIfDue()
	}
	if b.isDown() && !b.allows(ctx, q.Limiter) {
		return g.withoutRedis(q, b.notSent(q.Limiter))
	}
	a, err := g.take(ctx, q)
	if err != nil {
		return g.afterError(ctx, b, q, a, err)
	}
	return b.answered(ctx, q.Limiter, a)
}

// take takes permits with one call. A request that waits without a bound joins the queue of its limiter
// at once, for a deadline, and so overtakes no other.
func (g *Guard) take(ctx context.Context, q Ask) (a Answer, err error) {
	if q.Wait == Forever && q.MaxWaiting == 0 {
		return q.call(ctx, g.Deadline())
	}
	ctx, stop := context.WithTimeout(ctx, g.Deadline())
	defer stop()
	return q.call(ctx, 0)
}

// call asks the limiter once, or waits in its queue for at most a time, or Forever. The answer to an error is Canceled
// if no permits are free before the deadline of ctx, which is no failure to make a connection in time.
func (q Ask) call(ctx context.Context, wait time.Duration) (a Answer, err error) {
	h, ok := inside.HandleOf(q.Limiter)
	if !ok {
		return a, errZero(q.Limiter)
	}
	ask, r := engine.Ask{Permits: q.Permits, Detail: true, Each: q.Each, Receipt: true}, engine.Result{}
	if wait == 0 {
		err = h.Try(ctx, ask, &r)
	} else {
		end, deadline := time.Now().Add(wait), time.Time{}
		if wait != Forever {
			deadline = end
		}
		r.Allowed, err = h.Wait(ctx, ask, deadline, &r)
		_, ends := ctx.Deadline()
		if ends && ctx.Err() == nil && isTimeout(err) && (wait == Forever || time.Now().Before(end)) {
			a.Result = limit.Canceled
		}
	}
	a.Decision, a.fromMemory = rratelimiter.Decision(r.Decision), r.From != engine.FromRedis
	for _, part := range r.Parts {
		a.Each = append(a.Each, rratelimiter.Decision(part))
	}
	a.Receipt = receipt.Receipt{Permits: q.Permits, Refund: r.Refund, Hold: r.Hold}
	return a, err
}

// isTimeout reports whether a wait has ended, and not the time to make a connection.
func isTimeout(err error) bool {
	var dialed *net.OpError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dialed)
}

// waitInQueue waits in the queue of a limiter after its denial, for at most a time, or Forever. If Redis is
// down meanwhile, the wait ends.
func (g *Guard) waitInQueue(ctx context.Context, q Ask, denied Answer, most time.Duration) Answer {
	up, stop := g.whileUp(ctx, q.Limiter)
	defer stop()
	a, err := q.call(up, most)
	b := g.breakerOf(q.Limiter)
	if err != nil {
		if a.Result != limit.Canceled && q.Wait > 0 && up.Err() == nil && isTimeout(err) && !b.isSilent() {
			return denied // the wait is over, and Redis still has time to answer
		}
		denied.Result = a.Result
		if ctx.Err() == nil && errors.Is(context.Cause(up), ErrDown) {
			denied.Result, err = limit.Rejected, b.notSent(q.Limiter)
		}
		return g.afterError(ctx, b, q, denied, err)
	}
	if !a.Decision.Allowed {
		if a.Decision.Limit > 0 && !slices.ContainsFunc(PoliciesOf(q.Limiter), isHeld) { // else its RetryAfter is for the queue
			denied.Decision, denied.Each = a.Decision, a.Each
		}
		return denied
	}
	return b.answered(ctx, q.Limiter, a)
}

// answered records the answer to a request, and sets its result.
func (b *breaker) answered(ctx context.Context, l Limiter, a Answer) Answer {
	if a.Decision.Allowed {
		if a.Result = limit.Acquired; !a.fromMemory {
			reported := false
			defer func() { // a callback may panic, and then the caller does not get the answer
				if !reported {
					a.Receipt.Hold.Return()
				}
			}()
			b.recordUp(l)
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

// afterError decides a request after an error of its limiter. The answer has the numbers of an earlier one,
// and is Canceled if no permits are free before the deadline of ctx.
func (g *Guard) afterError(ctx context.Context, b *breaker, q Ask, a Answer, err error) Answer {
	a.Err = err
	switch {
	case a.Result == limit.Canceled:
		return a
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		a.Result = limit.Rejected // no wait helps
		return a
	case ctx.Err() != nil:
		b.verify(ctx, q.Limiter)
		a.Result = limit.Canceled
		return a
	}
	err = b.explain(q.Limiter, err)
	b.recordError(ctx, q.Limiter, err)
	if IsMistake(err) {
		return ByMode(q.Mode, err)
	}
	return g.withoutRedis(q, err)
}

// withoutRedis decides a request by the mode. A request that Redis would never grant is denied.
func (g *Guard) withoutRedis(q Ask, err error) Answer {
	if mistake := CheckLimiter(q.Limiter); mistake != nil {
		return ByMode(q.Mode, mistake)
	}
	for _, m := range membersOf(q.Limiter) { // not their initial rates: Redis may have others
		if d, known := policy.Of(m.Policy); known && d.Most < q.Permits {
			return Answered(limit.Rejected, fmt.Errorf("%w: %d permits of limiter %q, at most %d can be granted",
				rratelimiter.ErrPermitsExceedRate, q.Permits, q.Limiter.Name(), d.Most))
		}
	}
	if share := float64(q.Mode); share > 0 {
		if o, r, ok := g.local.decide(q.Limiter, q.Permits, share); ok {
			o.Err = err
			return Answer{Outcome: o, Receipt: r}
		}
	}
	return ByMode(q.Mode, err)
}

// ByMode answers a request that neither Redis nor a local share has decided. Local is Closed for it. So is
// Open for a mistake of the program.
func ByMode(mode limit.FailureMode, err error) Answer {
	if mode == limit.Open && !IsMistake(err) {
		return Answered(limit.FailedOpen, err)
	}
	return Answered(limit.FailedClosed, err)
}

// Settle changes the permits that a granted request has taken to its final cost. What it holds stays. It has the
// guard's deadline, even if ctx has ended.
func (g *Guard) Settle(ctx context.Context, q Ask, a Answer, cost int64) error {
	switch {
	case a.Result != limit.Acquired || cost == q.Permits:
		return nil
	case a.Local:
		return a.Receipt.Settle(ctx, cost, "", nil)
	}
	b := g.breakerOf(q.Limiter)
	if b.isDown() {
		return b.notSent(q.Limiter)
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), g.Deadline())
	defer stop()
	err := a.Receipt.Settle(limited, cost, "", chargeOf(q.Limiter))
	if err != nil { // nil is no answer of Redis: some settlements send nothing
		err = b.explain(q.Limiter, err)
		b.recordError(ctx, q.Limiter, err)
	}
	return err
}

// Down reports whether the node of a limiter is down.
func (g *Guard) Down(l Limiter) bool { return g.breakerOf(l).isDown() }
