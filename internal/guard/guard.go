// Package guard is the common part of the HTTP and gRPC middleware. It decides requests while Redis
// fails, detects when an outage begins and ends, and names clients and policies.
//
// # Outages
//
// A [Guard] asks the limiter for each request, and gives Redis a deadline. docs/failures.md defines an
// outage. A breaker keeps the state of each node, and a prober checks a node that is down. If a caller
// leaves before its call is answered, a probe checks whether the node is down. So an outage delays
// only the requests that arrive before it is detected, by a deadline each. No goroutine is left behind.
//
// A decision from memory, of a denial cache ([rratelimiter.WithDenialCache]) or a lease
// ([rratelimiter.WithLease]), is valid, but no answer of Redis.
package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is the part of a limiter that a guard needs. A guard also uses these methods of
// *limit.Limiter or *rratelimiter.Limiter, if present: TakeEach, TryAcquireWithin, Acquire,
// Release, Charge, Peek, AvailablePermits and Name.
type Limiter interface {
	Take(ctx context.Context, permits int64) (rratelimiter.Decision, error)
}

// Guard decides the requests of one Middleware or interceptor. It is safe for concurrent use.
type Guard struct {
	mode       limit.FailureMode
	deadline   time.Duration
	maxWaiting int64 // 0 for no bound
	*Shared
}

// Forever is a wait that ends only with the request's context.
const Forever time.Duration = -1

// Request is a request for permits of a limiter.
type Request struct {
	Limiter  Limiter
	Policies []limit.Policy // of the limiter, if they are known
	Each     bool           // the Answer has the decision of each policy, even of one alone
	Permits  int64          // at least 1
	Wait     time.Duration  // the longest wait in place of a denial; 0 for none, or Forever
	Pauses   *Pauses        // of outgoing calls: none is granted during one; or nil

	waiting bool // it counts as a waiter
}

// Passes reports whether a request of a result proceeds.
func Passes(r limit.Result) bool { return r == limit.Acquired || r == limit.FailedOpen }

// Answer is the result of a request, and its reasons.
type Answer struct {
	Result   limit.Result
	Local    bool                    // decided by this process for its share of the limit
	Decision rratelimiter.Decision   // if Result is Acquired or Rejected
	Each     []rratelimiter.Decision // of each policy, if there are several or Request.Each, and the limiter reports them
	Waited   bool                    // for its permits: the numbers are older than the wait
	Err      error                   // why there is no decision of Redis, or why a wait is pointless

	receipt    receipt.Receipt // of the permits that Redis granted
	fromMemory bool            // decided by a lease or a denial cache
	shares     []bucket        // if Local: each after the grant
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

// NotSent returns the error of an outgoing request that was refused. It wraps the error of the
// middleware, and the reason if there is one.
func (a Answer) NotSent(err error, q Request) error {
	name, after := NameOf(q.Limiter), a.Decision.RetryAfter
	// Whole seconds, so that equal errors have equal texts.
	seconds := time.Duration(RoundUp(after, time.Second)) * time.Second
	switch {
	case a.Err != nil:
		return fmt.Errorf("%w: %w", err, a.Err)
	case after > 0 && a.Decision.Limit == 0:
		return fmt.Errorf("%w: limiter %q: paused for %v", err, name, seconds)
	case after > 0:
		return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time, but in %v", err, name, q.Permits, seconds)
	}
	return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time", err, name, q.Permits)
}

var (
	// ErrDown is the error of requests that are decided without a call to Redis, since it is down.
	ErrDown = errors.New("rratelimiter: Redis is down: the call was not sent")
	// ErrTooManyWaiting is the error of requests that are denied at once, since the bound of waiters
	// is reached.
	ErrTooManyWaiting = errors.New("rratelimiter: too many requests are waiting for permits: raise MaxWaiting")
)

// Fail answers a request whose key or limiter is unknown. Local is Closed for it, since no bucket
// belongs to it. So is Open for a mistake of the program.
func (g *Guard) Fail(err error) Answer {
	if g.mode == limit.Open && !IsMistake(err) {
		return Answer{Result: limit.FailedOpen, Err: err}
	}
	return Answer{Result: limit.FailedClosed, Err: err}
}

// Ask decides a request. It waits for the end of a pause too.
func (g *Guard) Ask(ctx context.Context, q Request) Answer {
	until := time.Now().Add(q.Wait)
	b := g.breakerOf(q.Limiter)
	for first := true; ; first = false {
		if q.Wait > 0 && !first {
			q.Wait = max(1, time.Until(until))
		}
		a, paused := q.paused(!b.isDown())
		if !paused {
			a = g.attempt(ctx, b, q)
			if _, paused := q.paused(a.Result == limit.Acquired && !a.Local); paused && Passes(a.Result) {
				// The pause began during the wait, so the permit is too early: refund it. A permit
				// that cannot be refunded is lost.
				_ = g.Settle(ctx, q, a, 0)
				continue
			}
		}
		pause := a.Decision.RetryAfter
		if a.Result != limit.Rejected || q.Wait == 0 || pause <= 0 || q.Wait > 0 && time.Now().Add(pause).After(until) {
			return a
		}
		if a.Local {
			pause = min(pause, localPoll)
		} else if _, waits := q.Limiter.(waiter); waits && !paused {
			return a // the limiter has waited itself
		}
		if !q.waiting {
			if !g.enter() {
				a.Err = ErrTooManyWaiting
				return a
			}
			defer g.leave()
			q.waiting = true
		}
		poll := pause
		if paused {
			poll = min(pause, localPoll) // until Redis has it too
		}
		if err := sleep(ctx, pause, poll); err != nil {
			return Answer{Result: limit.Canceled, Decision: a.Decision, Each: a.Each, Err: err}
		}
	}
}

// attempt decides a request once, by Redis unless that is down.
func (g *Guard) attempt(ctx context.Context, b *breaker, q Request) Answer {
	g.local.tidy()
	if !b.allows(ctx, q.Limiter) {
		return g.withoutRedis(q, b.downError(q.Limiter))
	}
	l, waits := q.Limiter.(waiter)
	if waits && q.Wait == Forever && g.maxWaiting == 0 {
		return g.acquireForever(ctx, b, q, l)
	}
	limited, stop := context.WithTimeout(ctx, g.deadline)
	defer stop()
	a, err := take(limited, q)
	if err != nil {
		return g.failed(ctx, b, q, a, err)
	}
	if a.Decision.Allowed {
		a.Result = limit.Acquired
		if !a.fromMemory {
			b.succeeded()
		}
		return a
	}
	a.Result = limit.Rejected
	if !a.fromMemory {
		b.answered(ctx, q.Limiter)
	} else if b.isDown() {
		b.verify(ctx, q.Limiter)
	}
	if !waits || q.Wait == 0 || q.Wait > 0 && a.Decision.RetryAfter > q.Wait {
		return a
	}
	if !q.waiting {
		if !g.enter() {
			a.Err = ErrTooManyWaiting
			return a
		}
		defer g.leave()
	}
	return g.wait(ctx, b, q, a, l)
}

// take takes permits from the limiter, with one call.
func take(ctx context.Context, q Request) (a Answer, err error) {
	slot := receipt.Collect(ctx)
	defer func() { a.receipt, a.fromMemory = slot.Of(q.Permits), slot.FromMemory() }()
	if l, ok := q.Limiter.(interface {
		TakeEach(ctx context.Context, permits int64) ([]rratelimiter.Decision, error)
	}); ok && (q.Each || len(q.Policies) > 1) {
		if a.Each, err = l.TakeEach(slot, q.Permits); err == nil {
			a.Decision = combine(a.Each)
		}
		return a, err
	}
	a.Decision, err = q.Limiter.Take(slot, q.Permits)
	return a, err
}

// failed decides a request after an error of its limiter.
func (g *Guard) failed(ctx context.Context, b *breaker, q Request, a Answer, err error) Answer {
	a.Err = err
	switch {
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		a.Result = limit.Rejected // no wait helps
		return a
	case ctx.Err() != nil:
		b.verify(ctx, q.Limiter)
		a.Result = limit.Canceled
		return a
	}
	err = b.failure(q.Limiter, err)
	b.failed(ctx, q.Limiter, err)
	if IsMistake(err) {
		return g.Fail(err)
	}
	return g.withoutRedis(q, err)
}

// withoutRedis decides a request by the mode. A request that Redis would never grant is refused.
func (g *Guard) withoutRedis(q Request, err error) Answer {
	if mistake := CheckLimiter(q.Limiter); mistake != nil {
		return g.Fail(mistake)
	}
	policies := q.Policies
	if _, exact := unwrap(q.Limiter).(*limit.Limiter); exact && len(policies) == 0 { // another rate may be in Redis
		policies = OwnPolicies(q.Limiter)
	}
	for _, p := range policies {
		if d, known := policy.Of(p); known && d.Most < q.Permits {
			return Answer{Result: limit.Rejected, Err: fmt.Errorf("%w: %d permits of limiter %q, at most %d can be granted",
				rratelimiter.ErrPermitsExceedRate, q.Permits, NameOf(q.Limiter), d.Most)}
		}
	}
	if share := float64(g.mode); g.mode != limit.Open && g.mode != limit.Closed {
		if a, ok := g.local.take(q, share); ok {
			a.Err = err
			return a
		}
	}
	return g.Fail(err)
}

// NameOf returns a limiter's name, "" if it has none.
func NameOf(l Limiter) string {
	if l, ok := l.(interface{ Name() string }); ok {
		return l.Name()
	}
	return ""
}
