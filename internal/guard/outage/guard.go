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
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Guard decides requests. Its state is whether each node of Redis is up, the permits granted without
// Redis, and the number of waiters. It is safe for concurrent use.
type Guard struct {
	deadlines atomic.Int64 // nanoseconds: of calls and probes
	reports   reports
	breakers  sync.Map // node to *breaker
	local     buckets
	waiting   atomic.Int64
	waiters   waiters
}

// Changed is the callback of an outage: with the address of its node, "" if that is unknown, and with
// the error that began it.
type Changed = func(node string, up bool, err error)

// New returns a guard. Its callback may be nil. It receives each change of the state of a node in
// order. No lock is held. The request or the prober that observes the change calls it, or a goroutine that is in
// the callback of an earlier one.
func New(deadline time.Duration, changed Changed) *Guard {
	g := &Guard{reports: reports{changed: changed}, local: buckets{clock: clock{time.Now()}}}
	g.SetDeadline(deadline)
	return g
}

// SetDeadline sets the deadline of calls and probes.
func (g *Guard) SetDeadline(d time.Duration) { g.deadlines.Store(int64(d)) }

// Deadline returns the deadline of calls and probes.
func (g *Guard) Deadline() time.Duration { return time.Duration(g.deadlines.Load()) }

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
		if a, ok := g.local.decide(q, share); ok {
			a.Err = err
			return a
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
