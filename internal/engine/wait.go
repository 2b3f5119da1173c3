package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"time"
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
	until := ctx
	if !deadline.IsZero() {
		var stop context.CancelFunc
		until, stop = context.WithDeadlineCause(ctx, deadline, errTimeout)
		defer stop()
	}
	if l.Engine.hooked {
		return l.waitHooked(ctx, until, ask, result)
	}
	if _, err := l.wait(ctx, until, ask, result); err != nil {
		return false, withoutTimeout(ctx, until, err)
	}
	return true, nil
}

// errTimeout is the cause of the end of a context that ends at the deadline of Wait.
var errTimeout = errors.New("the deadline has passed")

// waitHooked is Wait with prefetches, the denial cache and the report of the decision.
func (l *Limiter) waitHooked(ctx, until context.Context, ask Ask, result *Result) (granted bool, err error) {
	observation, reported := l.Observe(ask.Permits), false
	defer result.returnUnless(&reported)
	if !l.fromPrefetch(ask, result) {
		if err = l.denyWaiter(until, ask, result); err == nil {
			err = observation.wait(ctx, func() (bool, error) { return l.wait(ctx, until, ask, result) })
		}
	}
	granted, err = err == nil, withoutTimeout(ctx, until, err)
	observation.Report(ctx, granted, result.From, err)
	reported = true
	return granted, err
}

// withoutTimeout returns nil if err reports that the deadline, and not an earlier one of ctx, cannot be
// met. Otherwise it returns err.
func withoutTimeout(ctx, until context.Context, err error) error {
	var late *deadlineError
	if until != ctx && errors.As(err, &late) {
		deadline, _ := until.Deadline()
		if end, ok := ctx.Deadline(); !ok || deadline.Before(end) {
			return nil
		}
	}
	return err
}

// wait waits in the queue until a context ends, which is ctx or ends before it. It reports whether that was for
// permits, or for Redis alone. The error is *deadlineError if the deadline of the context cannot be met.
func (l *Limiter) wait(ctx, until context.Context, ask Ask, result *Result) (forPermits bool, err error) {
	w := &waiter{Request: Request{Ask: ask}, done: make(chan struct{}, 1), since: time.Now()}
	w.deadline, _ = until.Deadline()
	e := l.enqueue(w)
	select {
	case <-w.done:
	case <-until.Done():
		left, denied := withdraw(e, w, result)
		switch timedOut := context.Cause(until) == errTimeout; { //nolint:errorlint // it is no error of another context
		case !left:
			<-w.done
		case !timedOut:
			return w.forPermits, until.Err()
		case denied:
			return w.forPermits, &deadlineError{permits: w.Permits, name: l.Name}
		default:
			return w.forPermits, fmt.Errorf("rratelimiter: limiter %q: Redis has not answered before the timeout: %w",
				l.Name, context.DeadlineExceeded)
		}
	}
	return w.forPermits, l.takeResult(ctx, &w.Request, result)
}

// enqueue adds a waiter to the end of the queue, and starts the queue if it is the first.
func (l *Limiter) enqueue(w *waiter) *entry {
	g := l.Engine
	e := g.registry.lockEntry(l.ID)
	defer e.mu.Unlock()
	if g.hooked && l.usesPrefetch() {
		l.countDemand(e, w.Permits)
	}
	if e.queue == nil {
		q := &queue{woken: make(chan struct{}, 1), repliedAt: time.Now(),
			id: strconv.FormatUint(maphash.String(g.queueSeed, l.ID), 36)}
		e.queue = q
		g.registry.index.add(e, l.DependsOn)
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
	q, now := e.queue, time.Now()
	if denied = w.arrival <= q.repliedFor || q.polls(q.first.Permits, now); denied {
		*result = q.resultBehind(w.Ask, 0, now)
	}
	q.remove(w)
	return true, denied
}

// serve asks Redis for the waiters of a queue, until there are none. It does not share the calls of Try:
// its requests are ordered, the forecast gives the time of its calls, and a denied request stays.
func (l *Limiter) serve(e *entry, q *queue) {
	g, ended := l.Engine, false
	defer func() {
		if !ended { // a callback of a call has ended the goroutine
			go l.serve(e, q)
		}
	}()
	for {
		// Callers that arrive at the same time, or that the last reply has woken, can still join.
		g.yields.yield(nil)
		e.mu.Lock()
		if q.first == nil {
			e.queue, ended = nil, true
			g.registry.unlockEntry(e)
			return
		}
		first := q.first
		q.firstWaits = first.forPermits || first.arrival <= q.calledFor
		if e.prefetches != nil {
			if done := e.prefetches.serve(q); done != nil {
				e.mu.Unlock()
				wakeAll(done)
				continue
			}
		}
		now := time.Now()
		if pause := q.next().Sub(now); pause > 0 {
			first.forPermits = true // by the forecast of an earlier call
			e.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-q.woken:
			}
			continue
		}
		q.fillBatch(g.callTime.get(), !g.unclaimed.Load(), now)
		if e.prefetches != nil {
			e.prefetches.plan(&q.batch)
		}
		e.mu.Unlock()

		l.run(q.batch.context(context.Background()), e, &q.batch, func() { l.endQueued(e, q) })
	}
}

// endQueued ends the call of a queue, and the waiters that cannot be served in time. The entry is locked.
func (l *Limiter) endQueued(e *entry, q *queue) {
	b, now := &q.batch, time.Now()
	done := q.applyReply(&l.Engine.callTime, now)
	var revoked []*transfer
	if e.prefetches != nil {
		switch first := q.first; {
		case first == nil: // else prefetched permits are for the waiters
			e.prefetches.addToAll(b)
		case b.err == nil && first.arrival <= q.calledFor:
			revoked = e.prefetches.revokeFor(first.Permits)
		}
	}
	if revoked == nil {
		done = append(done, l.endUnservable(q, now)...)
	}
	e.mu.Unlock()
	switch {
	case b.callInfo == nil:
	case len(done) > 0:
		done[0].callInfo = b.takeCallInfo()
	default:
		b.takeCallInfo().reportAlone()
	}
	wakeAll(done)
	if revoked != nil { // the first waiter needs their permits as well
		await(context.Background(), revoked)
		e.mu.Lock()
		q.refresh() // although a refund may still hang
		e.mu.Unlock()
	}
}

// wakeAll wakes waiters that have their answers.
func wakeAll(done []*waiter) {
	for _, w := range done {
		w.done <- struct{}{}
	}
}

// endUnservable removes and returns waiters that had arrived before a call: all if the call failed, else those that
// can never be served, or not before their deadline. Then it plans the call that answers those that arrived later. The
// entry is locked.
func (l *Limiter) endUnservable(q *queue, now time.Time) (done []*waiter) {
	var w *waiter // the first that is not checked yet
	ahead := q.wanted
	for before := q.last; before != nil && before.arrival > q.checkedTo; before = before.prev {
		w, ahead = before, ahead-before.Permits
	}
	for ; w != nil && w.arrival <= q.calledFor; w = w.next {
		err := q.batch.err
		if err == nil && q.isAbove(w.Permits) {
			err = l.Protocol.AboveLimit(w.Permits, q.Forecast.Limit())
		} else if after := q.missedBy(w.Permits, ahead, w.deadline, now); err == nil && after > 0 {
			w.Result = q.resultBehind(w.Ask, ahead, now)
			err = &deadlineError{permits: w.Permits, name: l.Name, after: after}
		}
		if err == nil {
			ahead += w.Permits
			continue
		}
		w.finish(err)
		q.remove(w)
		done = append(done, w)
	}
	for q.checkedTo = q.calledFor; w != nil; w = w.next {
		q.askBy(w, ahead, now)
		ahead += w.Permits
	}
	return done
}
