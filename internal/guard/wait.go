package guard

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

type waiter interface {
	TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Acquire(ctx context.Context, permits int64) error
}

// wait queues a request that was denied. If Redis is down meanwhile, the wait ends.
func (g *Guard) wait(ctx context.Context, b *breaker, q Request, a Answer, l waiter) Answer {
	acquired, late, err := true, false, error(nil)
	whole := ctx
	ctx, stop := b.whileUp(ctx, q.Limiter)
	defer stop(nil)
	if q.Wait == Forever {
		slot := receipt.Collect(ctx)
		err = l.Acquire(slot, q.Permits)
		a.receipt, a.fromMemory = slot.Of(q.Permits), slot.FromMemory()
		late = tooLate(ctx, err)
	} else {
		end := time.Now().Add(q.Wait)
		// Redis has its deadline on top, for a call at the very end.
		limited, cancel := context.WithDeadline(ctx, end.Add(g.deadline))
		defer cancel()
		slot := receipt.Collect(limited)
		acquired, err = l.TryAcquireWithin(slot, q.Permits, q.Wait)
		a.receipt, a.fromMemory = slot.Of(q.Permits), slot.FromMemory()
		late = tooLate(ctx, err) && time.Now().Before(end)
	}
	if err != nil && whole.Err() == nil && errors.Is(context.Cause(ctx), ErrDown) {
		late, err = false, b.downError(q.Limiter)
	}
	return g.waited(whole, b, q, a, acquired, late, err)
}

// whileUp returns a context that ends with the cause ErrDown when Redis is down. The waits of a limiter
// do not tell when Redis hangs, so a probe finds that out, unless another call is answered. The end
// comes after a deadline of silence, one of the probe, and two pauses of a third each.
func (b *breaker) whileUp(ctx context.Context, l Limiter) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	var check func()
	check = func() {
		switch {
		case ctx.Err() != nil:
			return
		case b.isDown():
			end(ErrDown)
			return
		}
		b.verify(ctx, l)
		time.AfterFunc(b.deadline()/3, check)
	}
	time.AfterFunc(b.deadline()/3, check)
	return ctx, end
}

// waited returns the answer after a wait for permits. With late, no permits are free before the
// deadline of ctx.
func (g *Guard) waited(ctx context.Context, b *breaker, q Request, a Answer, acquired, late bool, err error) Answer {
	switch {
	case late:
		a.Result, a.Err = limit.Canceled, err
		return a
	case err != nil:
		return g.failed(ctx, b, q, a, err)
	case !acquired:
		return a
	}
	if !a.fromMemory {
		b.succeeded()
	}
	// The permits that other callers took during the wait are unknown, so permits that were missing
	// count as used.
	a.Result, a.Waited = limit.Acquired, true
	a.Decision = served(a.Decision, q.Permits)
	for i, d := range a.Each {
		a.Each[i] = served(d, q.Permits)
	}
	return a
}

// served returns the decision after a wait that ended with a grant.
func served(d rratelimiter.Decision, permits int64) rratelimiter.Decision {
	return rratelimiter.Decision{Allowed: true, Limit: d.Limit, Remaining: max(0, d.Remaining-permits),
		ResetAfter: d.ResetAfter}
}

// acquireForever waits for permits as long as ctx lasts. The first call has the deadline, which
// detects an outage. The remaining permits are unknown.
func (g *Guard) acquireForever(ctx context.Context, b *breaker, q Request, l waiter) Answer {
	end := time.Now().Add(g.deadline)
	slot := receipt.Collect(ctx)
	acquired, err := l.TryAcquireWithin(slot, q.Permits, g.deadline)
	if err == nil && !acquired {
		if !slot.FromMemory() {
			b.answered(ctx, q.Limiter)
		}
		return g.wait(ctx, b, q, Answer{}, l)
	}
	late := tooLate(ctx, err) && time.Now().Before(end)
	return g.waited(ctx, b, q, Answer{receipt: slot.Of(q.Permits), fromMemory: slot.FromMemory()}, acquired, late, err)
}

// tooLate reports whether an error means that no permits are free before the deadline of ctx, and
// not that a connection was not made in time.
func tooLate(ctx context.Context, err error) bool {
	var dialed *net.OpError
	_, ends := ctx.Deadline()
	return ends && errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dialed)
}

// localPoll is the time between checks whether Redis is back, for waiters on a share of the limit.
const localPoll = time.Second

// sleep waits for poll. It fails at once if ctx ends before whole.
func sleep(ctx context.Context, whole, poll time.Duration) error {
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
