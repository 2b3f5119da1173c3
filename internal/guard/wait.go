package guard

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

// waiter is a limiter that can be waited for.
type waiter interface {
	TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Acquire(ctx context.Context, permits int64) error
}

// wait queues a request that was denied.
func (g *Guard) wait(ctx context.Context, q Request, a Answer, l waiter) Answer {
	granted, late, err := true, false, error(nil)
	if q.Wait == Forever {
		err = l.Acquire(ctx, q.Permits)
		late = tooLate(ctx, err)
	} else {
		end := time.Now().Add(q.Wait)
		// Redis has its deadline on top, for the answer to a call at the very end.
		limited, stop := context.WithDeadline(ctx, end.Add(g.deadline))
		defer stop()
		granted, err = l.TryAcquireWithin(limited, q.Permits, q.Wait)
		late = tooLate(ctx, err) && time.Now().Before(end)
	}
	switch {
	case late:
		a.Result, a.Err = Canceled, err
		return a
	case err != nil:
		return g.failed(ctx, q, a, err)
	case !granted:
		return a
	}
	g.store.answered()
	// The permits that others have taken meanwhile are unknown: those that were too few count as used up.
	a.Result, a.Waited = Granted, true
	a.Decision = served(a.Decision, q.Permits)
	for i, d := range a.Each {
		a.Each[i] = served(d, q.Permits)
	}
	return a
}

// served is a decision once the permits were had after a wait.
func served(d rratelimiter.Decision, permits int64) rratelimiter.Decision {
	return rratelimiter.Decision{Allowed: true, Limit: d.Limit, Remaining: max(0, d.Remaining-permits), ResetAfter: d.ResetAfter}
}

// inLine waits for permits as long as ctx lasts. Redis has to answer by the deadline once; then it is there.
func (g *Guard) inLine(ctx context.Context, q Request, l waiter) Answer {
	end := time.Now().Add(g.deadline)
	granted, err := l.TryAcquireWithin(ctx, q.Permits, g.deadline)
	late := tooLate(ctx, err) && time.Now().Before(end)
	if err == nil {
		g.store.answered()
		if granted {
			return hadInLine
		}
		err = l.Acquire(ctx, q.Permits)
		late = tooLate(ctx, err)
	}
	switch {
	case late:
		return Answer{Result: Canceled, Err: err}
	case err != nil:
		return g.failed(ctx, q, Answer{}, err)
	}
	g.store.answered()
	return hadInLine
}

// hadInLine is the answer where permits were waited for, which tells nothing of what is left.
var hadInLine = Answer{Result: Granted, Decision: rratelimiter.Decision{Allowed: true}}

// tooLate says whether an error can say that permits are not to be had before the deadline of ctx, rather than that a connection
// could not be made in time.
func tooLate(ctx context.Context, err error) bool {
	var dialed *net.OpError
	_, ends := ctx.Deadline()
	return ends && errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dialed)
}

// lookAgain is how often who waits for a share of the limit looks whether Redis is back.
const lookAgain = time.Second

// sleep waits, and fails at once where ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
