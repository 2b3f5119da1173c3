package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// queue holds the waiters of one limiter: the callers of Acquire, TryAcquireWithin and TakeWithin, first come,
// first served. One goroutine calls Redis for all of them and ends with the last waiter. It sends a
// call
//
//   - when the first waiter could be served, or when the forecast says so (Renew),
//   - after AskAgain, since other Clients can return permits and change the limiter,
//   - when this Client has changed the limiter,
//   - when a waiter has arrived that the last forecast would deny: no waiter is denied on state from
//     before its arrival (but see polls),
//   - and soon after any other arrival, so that the waiter learns if the limiter was deleted.
//
// Arriving, leaving and being served take the same time at any length. The entry guards the queue, which has no clock
// and sends nothing: its methods get the time.
type queue struct {
	first, last *waiter       // linked in order of arrival
	wanted      int64         // the permits of all waiters
	woken       chan struct{} // has an element if the goroutine has to check the queue

	// Waiters are numbered: one is denied only by a reply to a call that was sent after its arrival. firstWaits is only
	// for an Observer.
	arrived    uint64    // the newest waiter
	calledFor  uint64    // the newest waiter before the last call
	repliedFor uint64    // the newest waiter before the last call that was answered
	dueForNew  time.Time // the latest time of a call for a new waiter; zero for none
	stale      bool      // this Client has changed the limiter: Redis is to be asked at once
	firstWaits bool      // a reply did not serve the first waiter: it waits for permits, not only for Redis
	checkedTo  uint64    // the newest waiter that a Forecast from after its arrival was compared with

	// From the last call.
	knowledge               // none if the call failed
	checked   time.Time     // when all waiters were checked again
	due       time.Time     // when the first waiter could be served, by the Forecast
	lag       time.Duration // of the Forecast: the next call is sent so much after due
	turn      bool          // no deadline shortens the lag: see QueueCall.Turn
	repliedAt time.Time     // when the reply arrived, or the queue began

	batch  Batch
	inCall uint64 // the newest waiter of the call in flight; 0 if there is none

	id        string        // among the queues of all Clients
	claimedAt time.Time     // of the last call with a Claim
	alone     bool          // no other Client had waiters then
	slow      time.Duration // of the calls of a Client for which permits were held
}

// claimAgain is how long a Client whose waiters were the only ones asks without a Claim.
const claimAgain = 250 * time.Millisecond

// add adds a waiter to the end of the queue, and plans the call that answers it.
func (q *queue) add(w *waiter) {
	q.arrived++
	w.arrival, w.forPermits = q.arrived, q.firstWaits && q.first != nil
	if w.prev = q.last; q.first == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.batch.callers.Add(1)
	ahead := q.wanted
	q.wanted += w.Permits
	if q.inCall == 0 && q.askBy(w, ahead, w.since) { // else see endUnservable
		q.wake()
	}
}

// askBy plans the call that answers a waiter behind others. It reports whether that is sooner than
// planned before.
func (q *queue) askBy(w *waiter, ahead int64, now time.Time) bool {
	due := now
	missed := q.missedBy(w.Permits, ahead, w.deadline, now) > 0 &&
		q.Forecast.Earliest(ahead, w.Permits) > 0 // else it is late only by the time of a call
	if !q.Sent.IsZero() && !q.isAbove(w.Permits) && !missed {
		if due = q.begins.Add(freshEnough + q.lag); !w.deadline.IsZero() && !q.polls(q.first.Permits, now) {
			// Early enough for a reply before the deadline.
			due = earliest(due, now.Add(w.deadline.Sub(now)/2))
		}
	}
	if !q.dueForNew.IsZero() && !due.Before(q.dueForNew) {
		return false
	}
	q.dueForNew = due
	return true
}

// remove removes a waiter. If it was the first, the next one may be servable.
func (q *queue) remove(w *waiter) {
	w.forPermits = w.forPermits || q.firstWaits
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
		q.wake()
	}
	q.batch.callers.Add(-1)
	q.wanted -= w.Permits
}

// wake makes the goroutine of the queue check it.
func (q *queue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// refresh has the queue ask Redis at once: this Client has changed the limiter.
func (q *queue) refresh() {
	q.stale = true
	q.wake()
}

// AskAgain is how long after a reply the next call is sent at the latest: other Clients may have returned
// permits, ended a pause or changed the rate.
const AskAgain = 5 * time.Second

// next returns when to send the next call, and records when the first waiter could be served.
func (q *queue) next() time.Time {
	if q.Sent.IsZero() || q.stale {
		return time.Time{}
	}
	at := q.servable(q.first.Permits, q.first.deadline)
	q.due = at
	lagged := at
	if q.lag > 0 && at.After(q.begins) && (q.turn || !q.lagMisses(at.Sub(q.begins))) {
		at = at.Add(q.lag)
		lagged = at
	}
	again := AskAgain
	if q.alone && q.batch.Claim.ID == "" {
		again = claimAgain // another Client may wait now: waiters are dated by the clock that is ahead
	}
	if q.Forecast != nil {
		again = min(again, q.Forecast.Renew())
	}
	at = earliest(at, q.begins.Add(again))
	if !q.dueForNew.IsZero() {
		at = earliest(at, q.dueForNew)
	}
	if q.turn && !at.Before(q.due) && at.Before(lagged) {
		return lagged // a call for another waiter would take the permits too
	}
	return at
}

// lagMisses reports whether one of the first waiters would miss its deadline if the next call, after so
// long, had a lag. All later calls have it too.
func (q *queue) lagMisses(after time.Duration) bool {
	late := q.lag + 2*q.took + time.Millisecond // of a reply
	var ahead int64
	for w, n := q.first, 0; w != nil && n < MaxRequests; w, n = w.next, n+1 {
		if !w.deadline.IsZero() && max(after, q.Forecast.Earliest(ahead, w.Permits)) > w.deadline.Sub(q.begins)-late {
			return true
		}
		ahead += w.Permits
	}
	return false
}

// callTime is the time of the last calls for the waiters of a Client. One slow call doubles it at most.
type callTime struct{ atomic.Int64 }

const (
	shortestCall = 10 * time.Millisecond
	// LongestCall bounds Batch.Backdate.
	LongestCall = time.Second
)

func (c *callTime) get() time.Duration { return max(shortestCall, time.Duration(c.Load())) }

func (c *callTime) add(took time.Duration) {
	before := c.get()
	c.Store(int64(min(LongestCall, max(before-before/32, min(took, 2*before)))))
}

// fillBatch makes a batch of the first waiters: as many as can be served at once, after a call of that
// time. One more is in it, so that the reply has the wait of that one. If the first cannot be served yet, the
// batch has only that one.
func (q *queue) fillBatch(call time.Duration, claims bool, now time.Time) {
	b := &q.batch
	b.Requests = b.Requests[:0]
	b.Prefetch = Prefetch{}
	b.QueueCall = QueueCall{Ordered: true, Backdate: min(max(call, q.slow), now.Sub(q.first.since))}
	most := int64(MaxPermits)
	if q.Forecast != nil {
		most = q.Forecast.Limit()
	}
	by := now.Sub(q.begins) + call
	var sum, servable int64
	last := !q.Sent.IsZero() && !q.stale && // only the first
		q.servable(q.first.Permits, q.first.deadline).After(now.Add(call))
	for w := q.first; w != nil && len(b.Requests) < MaxRequests; w = w.next {
		if len(b.Requests) > 0 && (last || w.Permits > MaxPermits-sum) {
			break
		}
		sum += w.Permits
		if w.Permits <= most {
			servable += w.Permits
			last = last || servable > most && q.Forecast.Earliest(servable-w.Permits, w.Permits) > by
		}
		w.state.Store(inFlight)
		b.Requests = append(b.Requests, &w.Request)
		q.inCall = w.arrival
	}
	if claims && (!q.alone || now.Sub(q.claimedAt) >= claimAgain) {
		q.claimedAt = now
		b.Claim = Claim{ID: q.id, Late: call + shortestCall, Rest: q.wanted - sum}
	}
	if q.stale {
		q.checked = time.Time{} // the reply may deny any waiter
	}
	q.calledFor, q.stale, q.dueForNew = q.arrived, false, time.Time{}
}

// applyReply applies the reply to a call. It removes and returns the waiters that were granted permits, or
// whose request failed. The others keep their places.
func (q *queue) applyReply(times *callTime, now time.Time) (done []*waiter) {
	b := &q.batch
	lowered := q.Forecast != nil && b.isAbove(q.Forecast.Limit())
	// Other Clients may have taken permits since the last check.
	outdated := now.Sub(q.checked) >= checkEvery || b.callers.Load() <= MaxRequests
	if b.err != nil || !q.Sent.IsZero() && (lowered || outdated) {
		q.checkedTo, q.checked = 0, now
	}
	for w := q.first; w != nil && w.arrival <= q.inCall; w = w.next {
		if w.state.Load() == answered {
			q.remove(w)
			done = append(done, w)
		}
	}
	// A timer and a lag before the call are part of its time, but never more than shortestCall.
	took := now.Sub(b.Sent) + min(shortestCall, max(0, min(b.Sent.Sub(q.due), b.Sent.Sub(q.repliedAt))))
	q.inCall, q.knowledge, q.lag, q.turn, q.repliedAt = 0, knowledge{}, 0, b.Turn, now
	if b.err != nil {
		return done
	}
	times.add(took)
	q.knowledge, q.repliedFor, q.took = b.knowledge, q.calledFor, min(now.Sub(b.Sent), times.get())
	if b.Forecast != nil {
		q.lag = b.Forecast.Lag(q.wanted)
	}
	if b.Claim.ID != "" {
		q.alone = !b.Rivals.Others
		if q.alone || b.Rivals.Slow > 0 {
			q.slow = min(b.Rivals.Slow, LongestCall)
		}
	}
	return done
}

// checkEvery is the least time between two checks of all waiters of a long queue, since that takes long.
const checkEvery = 100 * time.Millisecond

// freshEnough bounds the age of the forecast: a new waiter that it does not deny causes a call within
// this time.
const freshEnough = time.Second

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// waiter is a request in the queue.
type waiter struct {
	Request
	arrival    uint64
	forPermits bool // it waits for permits: a reply did not serve it, or a waiter before it
	next, prev *waiter
	done       chan struct{} // has one element once the answer is final
	deadline   time.Time     // zero for none
	since      time.Time     // when it was queued
}

// deadlineError is the error of a waiter whose deadline is before the earliest time at which it could
// be served.
type deadlineError struct {
	permits int64
	name    string
	after   time.Duration // until then; 0 if the deadline has passed
}

func (e *deadlineError) Error() string {
	text := fmt.Sprintf("rratelimiter: %d permits of %q cannot be had before the deadline", e.permits, e.name)
	if after := e.after.Round(time.Microsecond); after > 0 {
		text += fmt.Sprintf(", in %v at the earliest", after)
	}
	return text
}

// Unwrap returns the error that the context would have returned in the end.
func (e *deadlineError) Unwrap() error { return context.DeadlineExceeded }
