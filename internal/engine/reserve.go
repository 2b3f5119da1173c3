package engine

import (
	"context"
	"slices"
	"time"
)

// A waiter of a limiter with Ahead gets a reservation: permits that it may use from a time on. The
// queue reserves for its first waiters, as far ahead as Ahead says, and later for the next ones. So
// callers that leave, and a process that ends, keep little from others.
//
// A reservation whose caller leaves goes to the next waiter, or back. The goroutine of the queue
// does this too, so that it reserves nothing behind permits that are being returned: they would then
// stay taken.

// ahead returns how far ahead the reservation of a waiter may be. only is set if there is no other.
func (l *Limiter) ahead(w *waiter, only bool) time.Duration {
	if !only {
		return l.Ahead
	}
	return min(Never, l.Ahead+l.Only(w.Permits))
}

// within is ahead, at most up to the deadline.
func (l *Limiter) within(w *waiter, only bool) time.Duration {
	within := l.ahead(w, only)
	if !w.deadline.IsZero() {
		within = min(within, max(0, time.Until(w.deadline)))
	}
	return within
}

// reservable returns when to send a call for a waiter that may use its permits after so long. Behind
// other reservations, that is when half of them have passed, so that one call makes many.
func (l *Limiter) reservable(w *waiter, after time.Duration, only bool) time.Duration {
	if only {
		return max(0, after-l.ahead(w, only))
	}
	return max(0, after-l.Ahead/2)
}

// hold adds the reservations that a call has made, in their order. A caller may have left during the
// call. The entry is locked, and the waiters have left the queue.
func (l *Limiter) hold(e *entry, waiters []*waiter) {
	for _, w := range waiters {
		if w.Allowed && w.Err == nil && (w.left || !w.At.IsZero()) {
			e.held.push(w)
		}
	}
	now, waits := time.Now(), false
	for _, w := range slices.Backward(waiters) {
		waits = waits || w.Allowed && w.Err == nil && !w.left
		if waits && w.left && w.At.IsZero() {
			w.At = now // see inherit
		}
	}
}

// awaitTime waits for the time of a reservation. If ctx ends before, or the time is after the
// deadline because the call took long, it returns the permits in the background.
func (l *Limiter) awaitTime(ctx context.Context, e *entry, w *waiter) error {
	left := time.Until(w.At)
	if left > 0 && !w.deadline.IsZero() && w.At.After(w.deadline) {
		l.leave(e, w)
		return &errDeadline{permits: w.Permits, name: l.Name, after: left}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if time.Until(w.At) > 0 {
			l.leave(e, w)
			return ctx.Err()
		}
	}
	e.mu.Lock()
	defer l.Engine.registry.unlockEntry(e)
	e.held.remove(w)
	switch last := e.held.last; {
	case last != nil && last.left:
		l.returnLater(e)
	case last == nil && e.queue != nil:
		e.queue.wake() // the next one may be further ahead
	}
	return nil
}

// leave returns the permits of a waiter whose caller leaves before their time.
func (l *Limiter) leave(e *entry, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.left = true
	l.returnLater(e)
}

// returnLater has the queue return the reservations of callers that have left. Flush waits for it.
// The entry is locked.
func (l *Limiter) returnLater(e *entry) {
	if e.leaving == nil {
		e.leaving = &transfer{done: make(chan struct{})}
		l.Engine.transfers.Store(e.leaving, nil)
	}
	l.startQueue(e)
	e.queue.wake()
}

// returnedAll ends what returnLater began. The entry is locked.
func (l *Limiter) returnedAll(e *entry) {
	if e.leaving != nil {
		l.Engine.transfers.Delete(e.leaving)
		close(e.leaving.done)
		e.leaving = nil
	}
}

// inherit gives the reservations whose callers have left to the next waiters, in order, if they want
// as many permits. It removes and returns these. A reservation before one of a caller that waits
// stays: otherwise the next waiter would overtake that caller. A time that has passed is not handed on,
// nor are permits that were free at once, except right after their call: meanwhile others have become
// free.
func (q *queue) inherit(held *list) (done []*waiter) {
	var left []*waiter
	for w := held.last; w != nil && w.left; w = held.last {
		held.remove(w)
		left = append(left, w)
	}
	now := time.Now()
	for _, w := range slices.Backward(left) {
		heir := q.waiters.first
		if heir == nil || heir.Permits != w.Permits || !w.usableBy(heir, now) {
			if held.push(w); w.At.IsZero() {
				w.At = now
			}
			continue
		}
		q.remove(heir)
		heir.Result, heir.At = w.Result, w.At
		heir.deliver(nil)
		done = append(done, heir)
		if !heir.At.IsZero() {
			held.push(heir)
		}
	}
	return done
}

// usableBy reports whether another waiter can use the reservation of w at its time.
func (w *waiter) usableBy(heir *waiter, now time.Time) bool {
	return w.At.IsZero() || w.At.After(now) && (heir.deadline.IsZero() || !w.At.After(heir.deadline))
}

// takeLeft removes the newest reservations, as long as their callers have left. A reservation that is
// older than that of a waiting caller would return nothing, since the later one depends on it.
func (l *Limiter) takeLeft(held *list) (left []*Request) {
	for w := held.last; w != nil && w.left && len(left) < l.Most; w = held.last {
		held.remove(w)
		left = append(left, &w.Request)
	}
	slices.Reverse(left)
	return left
}

// returnPermits returns reservations in one call.
func (l *Limiter) returnPermits(e *entry, q *queue, left []*Request) {
	runOrAbort(func() {
		if work := l.Protocol.Refund(&Batch{Lost: left}); work != nil {
			work(Unattended(context.Background()))
		}
	}, func() { go l.serve(e, q) }) // if this goroutine ends
}
