package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// Wait waits in the queue until permits are granted, and reports whether they were. It ends with
// ctx.
//
// It also ends with a deadline, if that is not the zero Time: without an error, and at once if the
// deadline cannot be met. If the deadline of ctx is earlier, the error is that of ctx. If Redis has
// not replied by the deadline, the error is context.DeadlineExceeded. A receipt.Slot of ctx gets the
// receipt.
func (l *Limiter) Wait(ctx context.Context, permits int64, deadline time.Time) (bool, error) {
	observation := l.Observe(permits)
	slot := receipt.SlotOf(ctx)
	result, err := l.wait(ctx, Ask{Permits: permits, Receipt: slot != nil}, deadline, &observation)
	granted := err == nil
	if result.From != FromRedis {
		slot.SetFromMemory()
	}
	if granted {
		slot.Put(receipt.Receipt{Permits: permits, Refund: result.Refund, Return: result.Return})
	}
	var late *errDeadline
	if !deadline.IsZero() && errors.As(err, &late) {
		if end, ok := ctx.Deadline(); !ok || deadline.Before(end) {
			err = nil
		}
	}
	observation.Report(ctx, granted, result.From, err)
	return granted, err
}

// wait is Wait, with *errDeadline if the deadline or that of the context cannot be met.
func (l *Limiter) wait(ctx context.Context, ask Ask, deadline time.Time,
	observation *Observation) (result Result, err error) {
	if l.fromLease(ask, &result) {
		return result, nil
	}
	latest := deadline
	if end, ok := ctx.Deadline(); ok && (latest.IsZero() || end.Before(latest)) {
		latest = end
	}
	if err := l.denyUntil(ask.Permits, latest); err != nil {
		return Result{From: FromMemory}, err
	}
	err = observation.Wait(ctx, func() (waited bool, err error) {
		result, waited, err = l.waitInQueue(ctx, ask, deadline, latest)
		return waited, err
	})
	return result, err
}

// waitInQueue waits in the queue. It reports whether it waited for permits, or for Redis alone.
// latest is the earlier of the deadline and that of ctx.
func (l *Limiter) waitInQueue(ctx context.Context, ask Ask, deadline, latest time.Time) (_ Result, waited bool,
	_ error) {
	var expired <-chan time.Time
	if !deadline.IsZero() {
		expired = time.After(time.Until(deadline))
	}
	w := &waiter{
		Request: Request{Ask: ask}, done: make(chan struct{}, 1), deadline: latest, since: time.Now(),
	}
	e := l.enqueue(w)
	for {
		select {
		case <-w.done:
			w.call.report(ctx, l)
			return w.Result, w.waited, w.Err
		case <-ctx.Done():
			if l.withdraw(e, w) {
				return Result{}, w.waited, ctx.Err()
			}
		case <-expired:
			if err := l.timeOut(e, w); err != nil {
				return Result{}, w.waited, err
			}
			expired = nil
		}
	}
}

// enqueue adds a waiter to the end of the queue, and starts the queue if it is the first.
func (l *Limiter) enqueue(w *waiter) *entry {
	g := l.Engine
	e := g.registry.lockEntry(l)
	defer e.mu.Unlock()
	if l.leases() {
		l.ensureLeases(e, w.Permits)
	}
	l.startQueue(e)
	e.queue.add(w)
	return e
}

// startQueue starts the queue of an entry if there is none. The entry is locked.
func (l *Limiter) startQueue(e *entry) {
	if e.queue == nil {
		q := &queue{changed: make(chan struct{}, 1)}
		q.batch.Ordered, q.batch.Full = true, l.Engine.denials != nil
		e.queue = q
		l.Engine.dependents.add(l)
		go l.serve(e, q)
	}
}

// withdraw removes a waiter whose caller has left. It returns false if the answer is already final.
func (l *Limiter) withdraw(e *entry, w *waiter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.state == answered {
		return false
	}
	w.state = abandoned
	e.queue.remove(w)
	return true
}

// timeOut removes a waiter whose timeout has ended. The error says why it was not served: its
// permits were not free, or Redis has not replied since it arrived. It is nil if the answer is
// already final.
func (l *Limiter) timeOut(e *entry, w *waiter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.state == answered {
		return nil
	}
	w.state = abandoned
	e.queue.remove(w)
	if w.arrival <= e.queue.fresh.replied {
		return &errDeadline{permits: w.Permits, name: l.Name}
	}
	return fmt.Errorf("rratelimiter: limiter %q: Redis has not answered before the timeout: %w", l.Name,
		context.DeadlineExceeded)
}
