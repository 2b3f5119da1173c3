// Package guard is the common part of the HTTP and gRPC middleware. It decides requests while Redis
// fails, detects when an outage begins and ends, and names clients and policies.
//
// # Outages
//
// A [Guard] asks the limiter for each request, and gives Redis a deadline. docs/failures.md defines an
// outage. A breaker keeps the state of each node, and a prober checks a node that is down. If a caller
// leaves before its call is answered, a probe checks whether the node is down. So an outage delays
// only the requests that arrive before it is detected, by a deadline each, and those that wait for
// permits then, by three. No goroutine is left behind.
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

// Limiter is a limiter of requests. A guard also uses these methods, if present: TakeEach,
// TryAcquireWithin, Acquire, Release, Charge, Peek, AvailablePermits, Pause, Policies and Unwrap.
type Limiter = limit.Joinable

// Guard decides the requests of one Middleware or interceptor. It is safe for concurrent use.
type Guard struct {
	mode       limit.FailureMode
	deadline   time.Duration
	maxWaiting int64 // 0 for no bound
	*Shared
}

// Request is a request for permits of a limiter.
type Request struct {
	Limiter  Limiter
	Policies []limit.Policy // of the limiter, if they are known
	Each     bool           // the Answer has the decision of each policy, even of one alone
	Permits  int64          // at least 1
	Wait     time.Duration  // the longest wait in place of a denial; 0 for none, or Forever
	Pauses   *Pauses        // of outgoing calls: none is granted during one; or nil
}

// Answer is the result of a request, and its reasons. A Guard sets Result, Local, Decision, Each and
// Err of the Outcome.
type Answer struct {
	limit.Outcome
	Waited bool // for its permits: the numbers are older than the wait

	receipt    receipt.Receipt // of the permits that Redis granted
	fromMemory bool            // decided by a lease or a denial cache
	paused     bool            // denied by a pause that a server asked for
	shares     []bucket        // if Local: each after the grant
}

// Passes reports whether a request of a result proceeds.
func Passes(r limit.Result) bool { return r == limit.Acquired || r == limit.FailedOpen }

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

var (
	// ErrDown is the error of requests that are decided without a call to Redis, since it is down.
	ErrDown = errors.New("rratelimiter: Redis is down: the call was not sent")
	// ErrTooManyWaiting is the error of requests that are denied at once, since the bound of waiters
	// is reached.
	ErrTooManyWaiting = errors.New("rratelimiter: too many requests are waiting for permits: raise MaxWaiting")
)

func answer(r limit.Result, err error) (a Answer) {
	a.Result, a.Err = r, err
	return a
}

// byMode answers a request whose key or limiter is unknown. Local is Closed for it, since no bucket
// belongs to it. So is Open for a mistake of the program.
func (g *Guard) byMode(err error) Answer {
	if g.mode == limit.Open && !IsMistake(err) {
		return answer(limit.FailedOpen, err)
	}
	return answer(limit.FailedClosed, err)
}

// try decides a request without a denial to wait for: by a pause, by Redis, or without it by the mode.
func (g *Guard) try(ctx context.Context, q Request) (a Answer) {
	b := g.breakerOf(q.Limiter)
	if left := q.pauseLeft(!b.isDown()); left > 0 {
		return pausedFor(left)
	}
	g.local.tidy()
	if !b.allows(ctx, q.Limiter) {
		return g.withoutRedis(q, b.downError(q.Limiter))
	}
	a, late, err := g.take(ctx, q)
	switch {
	case err != nil:
		return g.afterError(ctx, b, q, a, late, err)
	case a.Decision.Allowed:
		return b.granted(a)
	case !a.fromMemory:
		b.recordAnswer(ctx, q.Limiter)
	case b.isDown():
		b.verify(ctx, q.Limiter)
	}
	a.Result = limit.Rejected
	return a
}

// take takes permits with one call. A request that waits without a bound joins the line of its limiter
// at once, and so overtakes no other. Its numbers are unknown. With late, no permits are free before the
// deadline of ctx.
func (g *Guard) take(ctx context.Context, q Request) (a Answer, late bool, err error) {
	if l, ok := q.Limiter.(waiter); ok && q.Wait == Forever && g.maxWaiting == 0 {
		return join(ctx, l, q.Permits, g.deadline)
	}
	ctx, stop := context.WithTimeout(ctx, g.deadline)
	defer stop()
	slot := receipt.Collect(ctx)
	defer func() { a.receipt, a.fromMemory = slot.Of(q.Permits), slot.FromMemory() }()
	if l, ok := q.Limiter.(interface {
		TakeEach(ctx context.Context, permits int64) ([]rratelimiter.Decision, error)
	}); ok && (q.Each || len(q.Policies) > 1) {
		if a.Each, err = l.TakeEach(slot, q.Permits); err == nil {
			a.Decision = combine(a.Each)
		}
		return a, false, err
	}
	a.Decision, err = q.Limiter.Take(slot, q.Permits)
	return a, false, err
}

// granted answers a request that has its permits.
func (b *breaker) granted(a Answer) Answer {
	if a.Result = limit.Acquired; !a.fromMemory {
		b.recordGrant()
	}
	return a
}

// afterError decides a request after an error of its limiter.
func (g *Guard) afterError(ctx context.Context, b *breaker, q Request, a Answer, late bool, err error) Answer {
	a.Err = err
	switch {
	case late:
		a.Result = limit.Canceled
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
		return g.byMode(err)
	}
	return g.withoutRedis(q, err)
}

// withoutRedis decides a request by the mode. A request that Redis would never grant is refused.
func (g *Guard) withoutRedis(q Request, err error) Answer {
	if mistake := CheckLimiter(q.Limiter); mistake != nil {
		return g.byMode(mistake)
	}
	policies := q.Policies
	if l, exact := unwrap(q.Limiter).(*limit.Limiter); exact && len(policies) == 0 {
		policies = l.Policies() // without an initial rate: Redis may have another
	}
	for _, p := range policies {
		if d, known := policy.Of(p); known && d.Most < q.Permits {
			return answer(limit.Rejected, fmt.Errorf("%w: %d permits of limiter %q, at most %d can be granted",
				rratelimiter.ErrPermitsExceedRate, q.Permits, q.Limiter.Name(), d.Most))
		}
	}
	if share := float64(g.mode); share > 0 {
		if a, ok := g.local.take(q, share); ok {
			a.Err = err
			return a
		}
	}
	return g.byMode(err)
}
