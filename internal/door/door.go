// Package door has what all doors at which a limiter stands have in common, of HTTP and of gRPC: what becomes of a request
// while Redis fails, how that is noticed and how its end is, and by what names clients and policies go.
//
// # Redis fails
//
// A [Guard] asks the limiter for each request, and gives Redis a deadline. Where a call fails, or is not answered by then,
// the request is decided by the guard's [Mode]. Once a call has failed and none has been answered for as long as the
// deadline, the store counts as down. While it is down requests are decided by the mode at once, all but one at a time: once in
// each deadline a request asks Redis as if nothing had happened, and the first answer ends the outage. So an outage costs a
// few requests their deadline and the others nothing, and its end is seen by the next request that asks. That needs no goroutine:
// where no requests come, nothing is noticed, and nobody is there to care.
//
// A denial may come from the memory of a Client ([rratelimiter.WithDenialCache]). It holds, but says nothing of Redis; so a
// request that finds out whether Redis is back looks at it again, by a call that reads alone and has a deadline of its own. A lease
// ([rratelimiter.WithLease]) is granted from memory too; that lasts a second at most, and is taken for an answer of Redis.
package door

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is what a guard asks. It asks more of a limiter that has more methods of *limit.Limiter or *rratelimiter.Limiter:
// TakeEach, TryAcquireWithin, Acquire, Release, Charge, Peek, AvailablePermits and Name.
type Limiter interface {
	Take(ctx context.Context, permits int64) (rratelimiter.Decision, error)
}

// Guard asks limiters for the requests at one door. It is safe for concurrent use and keeps no goroutine.
type Guard struct {
	mode     Mode
	deadline time.Duration
	moments  moments
	store    store
	local    buckets
}

// New makes a guard. Changed is told, if it is not nil, of each change of the store's state, in order, with no lock held, by the
// request that has seen it; with the error for which the store counts as down.
func New(mode Mode, deadline time.Duration, changed func(up bool, err error)) *Guard {
	c := clock{time.Now()}
	return &Guard{
		mode: mode, deadline: deadline, moments: moments{patience: deadline},
		store: store{clock: c, patience: deadline, changed: changed}, local: buckets{clock: c},
	}
}

// Forever is a wait that ends with the request's context alone.
const Forever time.Duration = -1

// Request is what a guard asks for.
type Request struct {
	Limiter  Limiter
	Policies []limit.Policy // what it limits by, as far as that is known
	Permits  int64          // at least 1
	Wait     time.Duration  // instead of a refusal, at most; 0 for not at all, or Forever
}

// Result is what became of a request.
type Result int

// The results.
const (
	Granted      Result = iota + 1
	Refused             // it is not within the limit
	FailedOpen          // nobody could decide, and the mode lets it pass
	FailedClosed        // nobody could decide, and the mode does not
	Canceled            // its context has ended, or will have before there are permits
)

// String is the result as metrics name it.
func (r Result) String() string {
	switch r {
	case Granted:
		return "acquired"
	case Refused:
		return "rejected"
	case FailedOpen:
		return "failed_open"
	case FailedClosed:
		return "failed_closed"
	case Canceled:
		return "canceled"
	}
	return fmt.Sprintf("Result(%d)", int(r))
}

// Answer is the result of a request, and why.
type Answer struct {
	Result   Result
	Local    bool                    // decided by this process alone, for its share of the limit
	Invalid  bool                    // FailedClosed for the request itself, see [Invalid]
	Decision rratelimiter.Decision   // where it was granted or refused
	Each     []rratelimiter.Decision // one for each policy, where there are several and the limiter tells
	Err      error                   // why nobody could decide, or why no wait would help
}

// ErrDown is the error of requests for which Redis was not asked, since it is known to be down.
var ErrDown = errors.New("rratelimiter: Redis is known to be down, and was not asked")

// Fail answers a request of which it cannot be told who makes it, or which limiter to ask. No share of a limit is anybody's
// then, so Local is Closed.
func (g *Guard) Fail(err error) Answer {
	if g.mode == Open {
		return Answer{Result: FailedOpen, Err: err}
	}
	return Answer{Result: FailedClosed, Err: err}
}

// Ask decides a request.
func (g *Guard) Ask(ctx context.Context, q Request) Answer {
	var until time.Time
	if q.Wait > 0 {
		until = time.Now().Add(q.Wait)
	}
	for {
		a := g.once(ctx, q)
		if a.Result != Refused || q.Wait == 0 || a.Decision.RetryAfter <= 0 || q.Wait > 0 && time.Now().Add(a.Decision.RetryAfter).After(until) {
			return a
		}
		pause := a.Decision.RetryAfter
		if a.Local {
			pause = min(pause, lookAgain)
		} else if _, ok := q.Limiter.(waiter); ok {
			return a // it has waited
		}
		if err := sleep(ctx, pause); err != nil {
			return Answer{Result: Canceled, Decision: a.Decision, Each: a.Each, Err: err}
		}
		if q.Wait > 0 {
			q.Wait = max(1, time.Until(until))
		}
	}
}

// once decides a request, by Redis where that is not known to be down.
func (g *Guard) once(ctx context.Context, q Request) Answer {
	g.local.tidy()
	turn := g.store.turn()
	if turn == none {
		return g.alone(q, ErrDown)
	}
	if turn >= probes {
		defer g.store.probed(turn)
	}
	c := &deadline{Context: ctx, moment: g.moments.next()}
	defer c.stop()
	if l, ok := q.Limiter.(waiter); ok && q.Wait == Forever {
		return g.inLine(ctx, c, q, l)
	}
	a, err := take(c, q)
	if err != nil {
		return g.failed(ctx, q, a, err)
	}
	if a.Decision.Allowed {
		a.Result = Granted
		g.store.answered()
		return a
	}
	a.Result = Refused
	if turn >= probes {
		if !g.proves(ctx, q.Limiter) {
			return a
		}
		g.store.answered()
	}
	l, ok := q.Limiter.(waiter)
	if !ok || q.Wait <= 0 || a.Decision.RetryAfter > q.Wait {
		return a
	}
	return g.wait(ctx, q, a, l)
}

// take asks for permits once.
func take(ctx context.Context, q Request) (a Answer, err error) {
	if l, ok := q.Limiter.(interface {
		TakeEach(ctx context.Context, permits int64) ([]rratelimiter.Decision, error)
	}); ok && len(q.Policies) > 1 {
		if a.Each, err = l.TakeEach(ctx, q.Permits); err == nil {
			a.Decision = together(a.Each)
		}
		return a, err
	}
	a.Decision, err = q.Limiter.Take(ctx, q.Permits)
	return a, err
}

// together is the decisions of several policies as limit.Limiter.Take tells them.
func together(each []rratelimiter.Decision) (d rratelimiter.Decision) {
	allowed, longest, fewest := true, 0, 0
	for i, one := range each {
		allowed = allowed && one.Allowed
		if one.RetryAfter > each[longest].RetryAfter {
			longest = i
		}
		if one.Remaining < each[fewest].Remaining {
			fewest = i
		}
		d.ResetAfter = max(d.ResetAfter, one.ResetAfter)
	}
	if len(each) == 0 {
		return d
	}
	shown := each[fewest]
	if !allowed {
		shown = each[longest]
		d.RetryAfter = shown.RetryAfter
	}
	d.Allowed, d.Limit, d.Remaining = allowed, shown.Limit, shown.Remaining
	return d
}

// failed decides a request after an error of its limiter.
func (g *Guard) failed(ctx context.Context, q Request, a Answer, err error) Answer {
	a.Err = err
	switch {
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		a.Result = Refused // for ever
		return a
	case ctx.Err() != nil:
		a.Result = Canceled
		return a
	}
	g.store.judge(err)
	return g.alone(q, err)
}

// alone decides a request without Redis.
func (g *Guard) alone(q Request, err error) Answer {
	if share := float64(g.mode); g.mode != Open && g.mode != Closed {
		if a, ok := g.local.take(q, share); ok {
			a.Err = err
			return a
		}
	}
	return g.Fail(err)
}

// NameOf is a limiter's name, "" where it has none.
func NameOf(l Limiter) string {
	if l, ok := l.(interface{ Name() string }); ok {
		return l.Name()
	}
	return ""
}
