package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Wait waits in the queue until permits are granted, and reports whether they were. It ends with
// ctx.
//
// It also ends with a deadline, if that is not the zero Time: without an error, and at once if the
// deadline cannot be met. If the deadline of ctx is earlier, the error is that of ctx. If Redis has
// not replied by the deadline, the error is context.DeadlineExceeded.
func (l *Limiter) Wait(ctx context.Context, ask Ask, deadline time.Time, result *Result) (bool, error) {
	observation := l.Observe(ask.Permits)
	err := l.wait(ctx, ask, deadline, &observation, result)
	granted := err == nil
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
func (l *Limiter) wait(ctx context.Context, ask Ask, deadline time.Time, observation *Observation, result *Result) error {
	if l.Engine.hooked && l.fromLease(ask, result) {
		return nil
	}
	latest := deadline
	if end, ok := ctx.Deadline(); ok && (latest.IsZero() || end.Before(latest)) {
		latest = end
	}
	if err := l.denyUntil(ask.Permits, latest); err != nil {
		result.From = FromMemory
		return err
	}
	return observation.Wait(ctx, func() (forPermits bool, err error) {
		w := &waiter{Request: Request{Ask: ask}, done: make(chan struct{}, 1), deadline: latest, since: time.Now()}
		err = l.waitInQueue(ctx, w, deadline)
		if err == nil {
			*result = w.Result
		}
		return w.forPermits, err
	})
}

// waitInQueue waits in the queue. Without a deadline, it waits until ctx ends.
func (l *Limiter) waitInQueue(ctx context.Context, w *waiter, deadline time.Time) error {
	var expired <-chan time.Time
	if !deadline.IsZero() {
		expired = time.After(time.Until(deadline))
	}
	e := l.enqueue(w)
	for {
		select {
		case <-w.done:
			if w.call != nil {
				w.call.report(ctx, l)
			}
			return w.Err
		case <-ctx.Done():
			if l.withdraw(e, w) {
				return ctx.Err()
			}
		case <-expired:
			if err := l.timeOut(e, w); err != nil {
				return err
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
		q := &queue{changed: make(chan struct{}, 1), answered: time.Now()}
		q.batch.Ordered, q.batch.Full, q.batch.queue = true, l.Engine.denials != nil, q
		e.queue = q
		l.Engine.dependents.add(l)
		go l.serve(e, q)
	}
}

// withdraw removes a waiter whose caller has left. It returns false if the answer is already final.
func (l *Limiter) withdraw(e *entry, w *waiter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.state.Load() == answered {
		return false
	}
	w.state.Store(abandoned)
	e.queue.remove(w)
	return true
}

// timeOut removes a waiter whose timeout has ended. The error says why it was not served: its
// permits were not free, or Redis has not replied since it arrived. It is nil if the answer is
// already final.
func (l *Limiter) timeOut(e *entry, w *waiter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.state.Load() == answered {
		return nil
	}
	w.state.Store(abandoned)
	e.queue.remove(w)
	if w.arrival <= e.queue.fresh.replied {
		return &errDeadline{permits: w.Permits, name: l.Name}
	}
	return fmt.Errorf("rratelimiter: limiter %q: Redis has not answered before the timeout: %w", l.Name,
		context.DeadlineExceeded)
}
