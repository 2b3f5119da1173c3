package engine

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// serve asks Redis for the waiters of a queue, until there are none. It does not share the calls of Try:
// its requests are ordered, the forecast gives the time of its calls, and a denied request stays.
func (l *Limiter) serve(e *entry, q *queue) {
	g := l.Engine
	for {
		// Callers that arrive at the same time, or that the last reply has woken, can still join.
		g.yields.yield(alone)
		e.mu.Lock()
		if q.waiters.first == nil {
			e.queue = nil
			g.dependents.remove(l)
			g.registry.unlockEntry(e)
			return
		}
		first := q.waiters.first
		q.fresh.firstWaits = first.forPermits || q.fresh.knows(first)
		if done := q.serveFrom(e.leases); done != nil {
			e.mu.Unlock()
			q.wakeAll(done)
			continue
		}
		if pause := time.Until(q.next()); pause > 0 {
			first.forPermits = true // by the forecast of an earlier call
			e.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-q.changed:
			}
			continue
		}
		q.fillBatch(g.callTime.get())
		changes := e.leases.plan(&q.batch)
		q.batch.sent.version = g.denials.version(l)
		e.mu.Unlock()

		l.callForQueue(e, q, changes)
	}
}

// callForQueue runs the call of a queue and applies the reply.
func (l *Limiter) callForQueue(e *entry, q *queue, changes uint64) {
	runOrAbort(func() {
		var err error
		runOrAbort(func() { err = l.acquire(q.batch.context(context.Background()), &q.batch) },
			func() {
				l.answerQueue(e, q, changes, l.Protocol.Explain(context.Background(), redisx.ErrNoReply))
			})
		l.answerQueue(e, q, changes, err)
	}, func() { go l.serve(e, q) }) // if this goroutine ends
}

// answerQueue applies a reply: it wakes the waiters that the call granted or failed, and then checks
// the others that had arrived before the call.
func (l *Limiter) answerQueue(e *entry, q *queue, changes uint64, err error) {
	b := &q.batch
	b.sent.call.finish(b.Lease.Granted, err)
	done, unused, released := l.answerInQueue(e, q, changes, err)
	l.updateDenials(b)
	q.wakeAll(done)
	l.releaseUnused(context.Background(), b, unused)
	if released != nil {
		runAll(context.Background(), released)
		l.Engine.wake(l.ID) // the queue asks Redis again, although a release may still hang
	} else {
		l.check(e, q, err)
	}
	b.takeCall().reportAlone() // if no caller does
}

// answerInQueue makes the answers of a call final, with the entry locked. It returns the waiters to
// wake, the release of a lease that must not be used, and the releases that the first waiter waits for.
func (l *Limiter) answerInQueue(e *entry, q *queue, changes uint64, err error) (done []*waiter, unused release,
	released []release) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		l.Engine.callTime.add(q.callTook())
		q.took = min(time.Since(q.batch.sent.at), l.Engine.callTime.get())
	}
	done = q.applyAnswers(err)
	l.addReceipts(&q.batch)
	if err == nil {
		q.fresh.replied = q.fresh.called
	}
	clear(q.inCall)
	q.inCall = q.inCall[:0]
	unused = e.leases.store(&q.batch, err, changes)
	if first := q.waiters.first; err == nil && first != nil && q.fresh.knows(first) {
		released = e.leases.releaseFor(first.Permits)
	}
	return done, unused, released
}

// wakeAll wakes waiters that have their answers. The first one reports the call.
func (q *queue) wakeAll(done []*waiter) {
	if len(done) > 0 {
		done[0].call = q.batch.takeCall()
	}
	for _, w := range done {
		w.done <- struct{}{}
	}
}

// check removes waiters that had arrived before a call: all if the call failed, else those that
// cannot be served in time. It unlocks the entry after each page, so that callers that arrive or
// leave do not wait.
func (l *Limiter) check(e *entry, q *queue, err error) {
	for more := true; more; {
		var done []*waiter
		e.mu.Lock()
		done, more = l.checkPage(q, err)
		e.mu.Unlock()
		q.wakeAll(done)
	}
}

// checkPage checks a page of those waiters. After the last page, it plans the call for those that
// arrived later.
func (l *Limiter) checkPage(q *queue, err error) (done []*waiter, more bool) {
	now := time.Now()
	for page := MaxRequests; ; page-- {
		w := q.fresh.toCheck()
		if w == nil {
			break
		}
		if page == 0 {
			return done, true
		}
		if l.endUnreachable(q, w, now, err) {
			done = append(done, w)
		} else {
			q.fresh.pass(w)
		}
	}
	q.askForNew(now)
	return done, false
}

// endUnreachable removes the waiter to check if its call failed with err, or if it can never be served, or
// not before its deadline, by the last forecast. It reports whether it did.
func (l *Limiter) endUnreachable(q *queue, w *waiter, now time.Time, err error) bool {
	if err == nil && q.aboveLimit(w) {
		err = l.Protocol.AboveLimit(w.Permits, q.forecast.Limit())
	} else if err == nil {
		after := q.missedBy(w, q.fresh.ahead, now)
		if after == 0 {
			return false
		}
		err = &errDeadline{permits: w.Permits, name: l.Name, after: after}
	}
	w.deliver(err)
	q.remove(w)
	return true
}
