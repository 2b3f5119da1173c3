// Package guard has what the middleware of HTTP and of gRPC have in common: what becomes of a request while Redis fails, how
// an outage begins and ends, and how clients and policies are named.
//
// # Outages
//
// A [Guard] asks the limiter for each request, and gives Redis a deadline. If the call fails, or is not answered by then, the
// guard's [Mode] decides the request. Redis counts as down once a call has failed and none has been answered for as long as
// the deadline. While it is down, the mode decides every request at once, and a prober asks Redis in the background. The
// first answer ends the outage. If a caller leaves before its call is answered, a probe finds out whether Redis is down.
//
// There is one prober at a time, and its calls take no permits. It calls after each deadline, then less and less often, but once a
// second. It ends with the outage, or a minute after the latest request; the next request asks Redis itself. So an outage costs those requests
// their deadline that come before it is noticed, and no others; and no goroutine is left behind.
//
// A denial may come from the memory of a Client ([rratelimiter.WithDenialCache]). It holds, but does not end an outage. A lease
// ([rratelimiter.WithLease]) is granted from memory too; it lasts a second at most, and counts as an answer of Redis.
package guard

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

// Guard asks limiters for the requests of one Middleware or interceptor. It is safe for concurrent use.
type Guard struct {
	mode       Mode
	deadline   time.Duration
	maxWaiting int64 // 0 for any number
	*Shared
}

// Forever is a wait that ends with the request's context alone.
const Forever time.Duration = -1

// Request is what a guard asks for.
type Request struct {
	Limiter  Limiter
	Policies []limit.Policy // of the limiter, as far as they are known
	Permits  int64          // at least 1
	Wait     time.Duration  // the longest wait in place of a denial; 0 for none, or Forever

	waiting bool // it counts among those that wait
}

// Result is what became of a request.
type Result int

// The results.
const (
	Granted      Result = iota + 1
	Refused             // it is not within the limit
	FailedOpen          // Redis could not decide, and the mode lets it pass
	FailedClosed        // Redis could not decide, and the mode does not let it pass
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
	Each     []rratelimiter.Decision // one for each policy, if there are several and the limiter reports them
	Waited   bool                    // for its permits, so that the numbers of Decision and Each are those of before
	Err      error                   // why Redis could not decide, or why no wait would help
}

var (
	// ErrDown is the error of requests for which Redis was not asked, since it is known to be down.
	ErrDown = errors.New("rratelimiter: Redis is known to be down, and was not asked")
	// ErrCrowded is the error of requests that were denied at once, since as many requests as may wait already do.
	ErrCrowded = errors.New("rratelimiter: too many requests wait for permits")
)

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
		if a.Result != Refused || q.Wait == 0 || a.Decision.RetryAfter <= 0 ||
			q.Wait > 0 && time.Now().Add(a.Decision.RetryAfter).After(until) {
			return a
		}
		pause := a.Decision.RetryAfter
		if a.Local {
			pause = min(pause, lookAgain)
		} else if _, ok := q.Limiter.(waiter); ok {
			return a // it has waited
		}
		if !q.waiting {
			if !g.enter() {
				a.Err = ErrCrowded
				return a
			}
			defer g.leave()
			q.waiting = true
		}
		if err := sleep(ctx, pause); err != nil {
			return Answer{Result: Canceled, Decision: a.Decision, Each: a.Each, Err: err}
		}
		if q.Wait > 0 {
			q.Wait = max(1, time.Until(until))
		}
	}
}

// once decides a request, by Redis unless that is known to be down.
func (g *Guard) once(ctx context.Context, q Request) Answer {
	g.own.local.tidy()
	if !g.store.admits(ctx, q.Limiter) {
		return g.alone(q, ErrDown)
	}
	l, waits := q.Limiter.(waiter)
	if waits && q.Wait == Forever && g.maxWaiting == 0 {
		return g.inLine(ctx, q, l)
	}
	limited, stop := context.WithTimeout(ctx, g.deadline)
	defer stop()
	a, err := take(limited, q)
	if err != nil {
		return g.failed(ctx, q, a, err)
	}
	if a.Decision.Allowed {
		a.Result = Granted
		g.store.answered()
		return a
	}
	a.Result = Refused
	if g.store.isDown() {
		g.store.doubt(ctx, q.Limiter)
	}
	if !waits || q.Wait == 0 || q.Wait > 0 && a.Decision.RetryAfter > q.Wait {
		return a
	}
	if !q.waiting {
		if !g.enter() {
			a.Err = ErrCrowded
			return a
		}
		defer g.leave()
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
		g.store.doubt(ctx, q.Limiter)
		a.Result = Canceled
		return a
	}
	g.store.failed(ctx, q.Limiter, err)
	return g.alone(q, err)
}

// alone decides a request without Redis.
func (g *Guard) alone(q Request, err error) Answer {
	if share := float64(g.mode); g.mode != Open && g.mode != Closed {
		if a, ok := g.own.local.take(q, share); ok {
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
