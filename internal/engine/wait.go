package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Wait waits in the queue until permits are granted, and reports whether they were. It ends with
// ctx.
//
// It also ends with a deadline, if that is not the zero Time: without an error, and at once if the
// deadline cannot be met. If the deadline of ctx is earlier, the error is that of ctx. If Redis has
// not replied by the deadline, the error is context.DeadlineExceeded.
//
// With Detail, the result has the numbers of the grant or of the denial, those of a denial as the last reply has
// them. They are zero if Redis has not replied.
func (l *Limiter) Wait(ctx context.Context, ask Ask, deadline time.Time, result *Result) (bool, error) {
	if l.Engine.hooked {
		return l.waitHooked(ctx, ask, deadline, result)
	}
	_, err := l.wait(ctx, ask, deadline, result)
	if err != nil {
		return false, withoutDeadline(ctx, deadline, err)
	}
	return true, nil
}

// withoutDeadline returns nil if err reports that the deadline, and not the earlier one of ctx, cannot be
// met. Otherwise it returns err.
func withoutDeadline(ctx context.Context, deadline time.Time, err error) error {
	var late *deadlineError
	if !deadline.IsZero() && errors.As(err, &late) {
		if end, ok := ctx.Deadline(); !ok || deadline.Before(end) {
			return nil
		}
	}
	return err
}

// earlierDeadline returns the earlier of a deadline, of which the zero Time is none, and that of ctx.
func earlierDeadline(ctx context.Context, deadline time.Time) time.Time {
	if end, ok := ctx.Deadline(); ok && (deadline.IsZero() || end.Before(deadline)) {
		return end
	}
	return deadline
}

// wait waits in the queue. It reports whether that was for permits, or for Redis alone. The error is
// *deadlineError if the deadline or that of ctx cannot be met.
func (l *Limiter) wait(ctx context.Context, ask Ask, deadline time.Time, result *Result) (forPermits bool,
	err error) {
	w := &waiter{Request: Request{Ask: ask}, done: make(chan struct{}, 1), deadline: earlierDeadline(ctx, deadline),
		since: time.Now()}
	var expired <-chan time.Time
	if !deadline.IsZero() {
		expired = time.After(time.Until(deadline))
	}
	e := l.enqueue(w)
	for {
		select {
		case <-w.done:
			*result = w.Result // before a hook, which may panic
			if w.call != nil {
				w.call.report(ctx, l)
			}
			return w.forPermits, w.Err
		case <-ctx.Done():
			if left, _ := withdraw(e, w, result); left {
				return w.forPermits, ctx.Err()
			}
		case <-expired:
			switch left, denied := withdraw(e, w, result); {
			case denied:
				return w.forPermits, &deadlineError{permits: w.Permits, name: l.Name}
			case left:
				return w.forPermits, fmt.Errorf("rratelimiter: limiter %q: Redis has not answered before the timeout: %w",
					l.Name, context.DeadlineExceeded)
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
	if g.hooked && l.prefetches() {
		l.ensureLeases(e, w.Permits)
	}
	if e.queue == nil {
		q := &queue{woken: make(chan struct{}, 1), repliedAt: time.Now(),
			id: strconv.FormatUint(maphash.String(g.registry.active.seed, l.ID), 36)}
		q.batch.Ordered, q.batch.Full, q.batch.queue = true, g.denials != nil, q
		e.queue = q
		g.dependents.add(l)
		go l.serve(e, q)
	}
	e.queue.add(w)
	return e
}

// withdraw removes a waiter whose caller leaves, unless its answer is already final, and reports whether it
// did. denied reports whether its permits were not free. The result then has the numbers of the denial. If denied is
// false, Redis has not replied since the waiter arrived, although a call was sent or due.
func withdraw(e *entry, w *waiter, result *Result) (left, denied bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.state.Load() == answered {
		return false, false
	}
	w.state.Store(abandoned)
	if denied = w.arrival <= e.queue.repliedFor || e.queue.polls(); denied {
		e.queue.deny(result, w, 0, time.Now())
	}
	e.queue.remove(w)
	return true, denied
}

// serve asks Redis for the waiters of a queue, until there are none. It does not share the calls of Try:
// its requests are ordered, the forecast gives the time of its calls, and a denied request stays.
func (l *Limiter) serve(e *entry, q *queue) {
	g := l.Engine
	for {
		// Callers that arrive at the same time, or that the last reply has woken, can still join.
		g.yields.yield(uncounted)
		e.mu.Lock()
		if q.waiters.first == nil {
			e.queue = nil
			g.dependents.remove(l)
			g.registry.unlockEntry(e)
			return
		}
		first := q.waiters.first
		q.firstWaits = first.forPermits || q.calledAfter(first)
		if e.prefetches != nil {
			if done := q.serveFrom(e.prefetches); done != nil {
				e.mu.Unlock()
				q.wakeAll(done)
				continue
			}
		}
		if pause := time.Until(q.next()); pause > 0 {
			first.forPermits = true // by the forecast of an earlier call
			e.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-q.woken:
			}
			continue
		}
		q.fillBatch(g.callTime.get(), time.Since(g.began) >= time.Duration(g.unshared.Load()))
		if g.hooked {
			l.hookDispatch(e, &q.batch)
		}
		e.mu.Unlock()

		l.callForQueue(e, q)
	}
}

// callForQueue makes the call of a queue, and then checks the waiters that it has not answered.
func (l *Limiter) callForQueue(e *entry, q *queue) {
	returned := false
	defer func() {
		if !l.Engine.hooked || !l.revokeForFirst(e, q) {
			l.endUnservable(e, q)
		}
		if q.batch.sent.call != nil {
			q.batch.takeCall().reportAlone() // if no caller does
		}
		if !returned { // this goroutine ends
			go l.serve(e, q)
		}
	}()
	l.runQueued(context.Background(), e, &q.batch)
	returned = true
}

// runQueued makes the call of a queue.
func (l *Limiter) runQueued(ctx context.Context, e *entry, b *Batch) {
	b.err = redisx.ErrNoReply // unless the call returns
	defer l.endQueued(ctx, e, b)
	b.err = l.acquire(b.context(ctx), b)
}

// endQueued ends the call of a queue.
func (l *Limiter) endQueued(ctx context.Context, e *entry, b *Batch) {
	g := l.Engine
	if b.err != nil {
		l.explainAbort(ctx, b)
	}
	e.mu.Lock()
	l.finishRequests(b)
	done := b.queue.applyReply(&g.callTime)
	var discarded release
	if g.hooked {
		discarded = l.hookAnswer(e, b)
	}
	e.mu.Unlock()
	if g.hooked {
		l.hookEnd(b)
		discarded.runLater()
	}
	if len(b.Lost) > 0 {
		l.refundLost(ctx, b)
	}
	b.queue.wakeAll(done)
}

// revokeForFirst releases the prefetches if the first waiter needs their permits as well, and has the queue
// ask again, although a release may still hang. It reports whether it did.
func (l *Limiter) revokeForFirst(e *entry, q *queue) bool {
	var releases []release
	e.mu.Lock()
	if first := q.waiters.first; q.batch.err == nil && first != nil && q.calledAfter(first) {
		releases = e.prefetches.revokeFor(first.Permits)
	}
	e.mu.Unlock()
	if releases == nil {
		return false
	}
	runAll(context.Background(), releases)
	l.Engine.refresh(l.ID)
	return true
}

// wakeAll wakes waiters that have their answers. The first one reports the call.
func (q *queue) wakeAll(done []*waiter) {
	if q.batch.sent.call != nil && len(done) > 0 && done[0].call == nil {
		done[0].call = q.batch.takeCall()
	}
	for _, w := range done {
		w.done <- struct{}{}
	}
}

// endUnservable removes waiters that had arrived before a call: all if the call failed, else those that
// cannot be served in time. It unlocks the entry after each page, so that callers that arrive or
// leave do not wait.
func (l *Limiter) endUnservable(e *entry, q *queue) {
	for more := true; more; {
		var done []*waiter
		e.mu.Lock()
		done, more = l.unservablePage(q)
		e.mu.Unlock()
		q.wakeAll(done)
	}
}

// unservablePage checks a page of those waiters. After the last page, it plans the call for those that
// arrived later.
func (l *Limiter) unservablePage(q *queue) (done []*waiter, more bool) {
	now := time.Now()
	for page := MaxRequests; q.unchecked != nil && q.calledAfter(q.unchecked); page-- {
		if page == 0 {
			return done, true
		}
		w := q.unchecked
		if err := l.unservable(q, w, now); err != nil {
			w.finish(err)
			q.remove(w)
			done = append(done, w)
		} else { // it stays
			q.ahead += w.Permits
			q.unchecked = w.next
		}
	}
	q.askForNew(now)
	return done, false
}

// unservable returns the error that ends the unchecked waiter: that of its call, or that it can never be
// served, or not before its deadline, by the last forecast. It returns nil for one that stays.
func (l *Limiter) unservable(q *queue, w *waiter, now time.Time) error {
	if q.batch.err != nil {
		return q.batch.err
	}
	if q.aboveLimit(w) {
		return l.Protocol.AboveLimit(w.Permits, q.forecast.Limit())
	}
	if after := q.missedBy(w, q.ahead, now); after > 0 {
		q.deny(&w.Result, w, q.ahead, now)
		return &deadlineError{permits: w.Permits, name: l.Name, after: after}
	}
	return nil
}
