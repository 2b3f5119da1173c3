package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// queue is where the callers of Acquire and TryAcquireWithin for one limiter's name wait, first come first served. One
// goroutine, which lives as long as somebody waits, asks Redis for all of them. It asks
//
//   - when the first could be served,
//   - when this client has changed something,
//   - when somebody has come whom what is known would refuse: nobody is refused from knowledge older than its arrival,
//   - and for everybody else soon after it has come, so that it learns of a limiter that is gone.
//
// However long the queue is, to come, to leave and to be answered take the same time. Its entry guards it.
type queue struct {
	waiters    list
	wanted     int64  // the permits of all who wait
	came       uint64 // the newest arrival
	covered    uint64 // whoever had come by then has been asked for: a call that began later has been answered
	firstWaits bool   // the first has been left in line by the last answer: whoever is there waits for permits, not for Redis alone

	// The arrivals that no answer has judged yet, since none was to a call that began after they came.
	unchecked *waiter
	ahead     int64 // the permits of those before it

	changed chan struct{} // has an element where the goroutine has to look again
	ask     bool          // at once: something has changed
	due     time.Time     // when somebody who came is to be asked for at the latest; zero for nobody

	// What the last call said.
	known    bool
	forecast Forecast // from the moment at on; nil where it told nothing but answers
	at       time.Time

	batch  Batch
	inCall []*waiter // those of the batch
}

// freshEnough is within how long of the last call Redis is asked for a caller that the known forecast does not deny.
const freshEnough = time.Second

// list holds the waiters in order of arrival.
type list struct{ first, last *waiter }

func (q *list) push(w *waiter) {
	w.prev = q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
}

func (q *list) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
}

// waiter is a request in the queue.
type waiter struct {
	Request
	arrival    uint64
	waited     bool // behind somebody whom an answer had left in line, or left there itself: see queue.stands
	next, prev *waiter
	done       chan struct{} // has one element once the answer is there
	deadline   time.Time     // the latest moment at which it wants to be served; zero for none
}

// errDeadline is the error of a waiter whose deadline is before the earliest time at which it could be served.
type errDeadline struct {
	permits int64
	name    string
	after   time.Duration
}

func (e *errDeadline) Error() string {
	return fmt.Sprintf("rratelimiter: %d permits of %q cannot be had before the deadline, in %v at the earliest", e.permits, e.name, e.after)
}

// Unwrap makes it the error that the context would have given in the end.
func (e *errDeadline) Unwrap() error { return context.DeadlineExceeded }

// askBy plans the call that answers a waiter behind others. It reports whether that is sooner than planned before.
func (q *queue) askBy(w *waiter, ahead int64) bool {
	now := time.Now()
	due := now
	if q.known && !q.hopeless(w, ahead, now) {
		if due = q.at.Add(freshEnough); !w.deadline.IsZero() {
			// Well before its deadline, so that there is an answer by then.
			due = earliest(due, now.Add(w.deadline.Sub(now)/2))
		}
	}
	if !q.due.IsZero() && !due.Before(q.due) {
		return false
	}
	q.due = due
	return true
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hopeless reports whether a waiter cannot be served, or not before its deadline, as far as the last call reported.
func (q *queue) hopeless(w *waiter, ahead int64, now time.Time) bool {
	return q.aboveLimit(w) || q.missedBy(w, ahead, now) > 0
}

// remove removes a waiter.
func (q *queue) remove(w *waiter) {
	if q.unchecked != nil {
		switch {
		case w == q.unchecked:
			q.unchecked = w.next
		case w.arrival < q.unchecked.arrival:
			q.ahead -= w.Permits
		}
	}
	w.waited = w.waited || q.firstWaits
	first := w == q.waiters.first
	q.waiters.remove(w)
	atomic.AddInt32(&q.batch.callers, -1)
	q.wanted -= w.Permits
	if first {
		q.wake()
	}
}

// wake makes the queue's goroutine look again.
func (q *queue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// next returns when to send the next call.
func (q *queue) next() time.Time {
	if !q.known || q.ask {
		return time.Time{}
	}
	at := q.servable(q.waiters.first)
	if !q.due.IsZero() {
		at = earliest(at, q.due)
	}
	return at
}

// aboveLimit reports whether a waiter can never be served, as far as the last call reported.
func (q *queue) aboveLimit(w *waiter) bool {
	return q.forecast != nil && w.Permits > q.forecast.Limit()
}

// servable returns when a waiter could be served at the earliest if it were the first, as far as the last call reported.
func (q *queue) servable(w *waiter) time.Time {
	if q.forecast == nil || q.aboveLimit(w) {
		return q.at
	}
	return q.at.Add(q.forecast.Earliest(w.Permits))
}

// missedBy returns how long after now a waiter can be served at the earliest, behind others that want ahead permits, if that is
// after its deadline; 0 if it may be served in time.
func (q *queue) missedBy(w *waiter, ahead int64, now time.Time) time.Duration {
	if w.deadline.IsZero() || q.forecast == nil {
		return 0
	}
	after := q.forecast.Earliest(ahead + w.Permits)
	if after < Never {
		after -= now.Sub(q.at)
	}
	if after <= w.deadline.Sub(now) {
		return 0
	}
	return max(after, 1)
}

// collect makes a batch of the first waiters: as many as the limit can serve at once, or, if the first cannot be served yet, of the
// first alone.
func (q *queue) collect() {
	b := &q.batch
	b.Requests, q.inCall = b.Requests[:0], q.inCall[:0]
	b.Forecast = nil // it is the queue's
	most := int64(MostPermits)
	if q.forecast != nil {
		most = q.forecast.Limit()
	}
	look := q.known && !q.ask && q.servable(q.waiters.first).After(time.Now())
	var sum, servable int64
	for w := q.waiters.first; w != nil && len(b.Requests) < MostRequests; w = w.next {
		// One more than the limit serves is the one that the answer tells the waits of.
		if len(b.Requests) > 0 && (look || servable > most || w.Permits > MostPermits-sum) {
			break
		}
		sum += w.Permits
		if w.Permits <= most {
			servable += w.Permits
		}
		w.state = inFlight
		b.Requests = append(b.Requests, &w.Request)
		q.inCall = append(q.inCall, w)
	}
	q.ask, q.due = false, time.Time{}
}

// serveFrom serves waiters from leases, in order, and returns those to wake.
func (q *queue) serveFrom(h *leaseSet) (done []*waiter) {
	if h == nil {
		return nil
	}
	now := time.Now()
	for i := range h.leases {
		s := &h.leases[i]
		for w := q.waiters.first; w != nil && w.Permits <= s.unused && !s.expired(now) && len(done) < MostRequests; w = q.waiters.first {
			s.unused -= w.Permits
			w.Allowed, w.From = true, FromLease
			w.deliver(nil)
			q.remove(w)
			done = append(done, w)
		}
	}
	return done
}

// deliver applies the answers of a call. Waiters that were granted permits, or whose request failed, leave the queue; it returns
// them. The others stay in their places.
func (q *queue) deliver(err error) (done []*waiter) {
	b := &q.batch
	if q.known && err == nil && q.changedFor(b) {
		// Who was judged before would have been told otherwise now.
		q.unchecked, q.ahead = q.waiters.first, 0
	}
	q.known, q.at, q.forecast = err == nil, b.asked, b.Forecast
	for _, w := range q.inCall {
		if w.state != abandoned && err == nil && !w.Allowed && w.Err == nil {
			w.state = queued
			continue
		}
		gone := w.state == abandoned
		if w.deliver(err) {
			b.Lost = append(b.Lost, &w.Request)
		}
		if !gone {
			q.remove(w)
			done = append(done, w)
		}
	}
	b.count()
	clear(q.inCall)
	q.inCall = q.inCall[:0]
	return done
}

// changedFor reports whether a waiter that was checked before may now wait in vain: the limiter has changed, or the first waiter was
// to be served by now and is not.
func (q *queue) changedFor(b *Batch) bool {
	first := q.inCall[0]
	return b.Forecast != nil && q.forecast != nil && b.Forecast.Worse(q.forecast) ||
		first.Err == nil && !first.Allowed && !q.servable(first).After(b.sent)
}
