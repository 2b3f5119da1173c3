package engine

import (
	"sync/atomic"
	"time"
)

// queue holds the waiters of one limiter: the callers of Acquire and TryAcquireWithin, first come,
// first served. One goroutine calls Redis for all of them and ends with the last waiter. It sends a
// call
//
//   - when the first waiter could be served, or when the forecast says so (Renew, Recheck),
//   - when this Client has changed the limiter,
//   - when a waiter has arrived that the last forecast would deny: no waiter is denied on state from
//     before its arrival,
//   - and soon after any other arrival, so that the waiter learns if the limiter was deleted.
//
// Arriving, leaving and being served take the same time at any length. The entry guards the queue.
type queue struct {
	waiters list
	wanted  int64 // the permits of all waiters
	fresh   freshness

	changed chan struct{} // has an element if the goroutine has to check the queue

	// From the last call.
	replied    bool
	checked    time.Time     // when all waiters were checked again
	forecast   Forecast      // nil if the reply had none
	forecastAt time.Time     // when the forecast begins
	lag        time.Duration // of the forecast
	took       time.Duration

	batch  Batch
	inCall []*waiter // of the batch
}

// add adds a waiter to the end of the queue, and plans the call that answers it.
func (q *queue) add(w *waiter) {
	w.waited = q.fresh.firstWaits && q.waiters.first != nil
	q.fresh.arrive(w, q.wanted)
	q.waiters.push(w)
	atomic.AddInt32(&q.batch.sent.callers, 1)
	ahead := q.wanted
	q.wanted += w.Permits
	if len(q.inCall) == 0 && q.askBy(w, ahead) { // else see askForNew
		q.wake()
	}
}

// askForNew plans the call that answers the waiters that arrived during the last one.
func (q *queue) askForNew(now time.Time) {
	ahead := q.fresh.ahead
	for w, page := q.fresh.unchecked, MaxRequests; w != nil; w, page = w.next, page-1 {
		if page == 0 {
			q.fresh.due = now
			return
		}
		q.askBy(w, ahead)
		ahead += w.Permits
	}
}

// askBy plans the call that answers a waiter behind others. It reports whether that is sooner than
// planned before.
func (q *queue) askBy(w *waiter, ahead int64) bool {
	now := time.Now()
	due := now
	if q.replied && !q.aboveLimit(w) && q.missedBy(w, ahead, now) == 0 {
		if due = q.forecastAt.Add(freshEnough); !w.deadline.IsZero() {
			// Early enough for a reply before the deadline.
			due = earliest(due, now.Add(w.deadline.Sub(now)/2))
		}
	}
	return q.fresh.plan(due)
}

// remove removes a waiter. If it was the first, the next one may be servable.
func (q *queue) remove(w *waiter) {
	q.fresh.leave(w)
	w.waited = w.waited || q.fresh.firstWaits
	first := w == q.waiters.first
	q.waiters.remove(w)
	atomic.AddInt32(&q.batch.sent.callers, -1)
	q.wanted -= w.Permits
	if first {
		q.wake()
	}
}

// wake makes the goroutine of the queue check it.
func (q *queue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// next returns when to send the next call.
func (q *queue) next() time.Time {
	if !q.replied || q.fresh.changed {
		return time.Time{}
	}
	at := q.servable(q.waiters.first)
	if q.lag > 0 && at.After(q.forecastAt) && !q.missed(at.Sub(q.forecastAt)) {
		at = at.Add(q.lag)
	}
	if q.forecast != nil {
		if again := min(q.forecast.Renew(), q.forecast.Recheck()); again < Never {
			at = earliest(at, q.forecastAt.Add(again))
		}
	}
	return q.fresh.next(at)
}

// missed reports whether one of the first waiters would miss its deadline if the next call, after so
// long, had a lag. All later calls have it too.
func (q *queue) missed(after time.Duration) bool {
	late := q.lag + 2*q.took + time.Millisecond // of a reply
	var ahead int64
	for w, n := q.waiters.first, 0; w != nil && n < MaxRequests; w, n = w.next, n+1 {
		if !w.deadline.IsZero() && max(after, q.forecast.Earliest(ahead, w.Permits)) > w.deadline.Sub(q.forecastAt)-late {
			return true
		}
		ahead += w.Permits
	}
	return false
}

// aboveLimit reports whether a waiter can never be served, by the last forecast.
func (q *queue) aboveLimit(w *waiter) bool {
	return q.forecast != nil && w.Permits > q.forecast.Limit()
}

// servable returns when to send a call for a waiter if it is the first, by the last forecast. That
// can be later than Earliest. A call at the end of another Client's lease may find its unused
// permits not yet returned. Then the next call would be an interval later. If the time is known and
// after the deadline of the waiter, it is halfway between Earliest and the deadline.
func (q *queue) servable(w *waiter) time.Time {
	if q.forecast == nil || q.aboveLimit(w) {
		return q.forecastAt
	}
	denied, known := q.forecast.Denied(w.Permits)
	at := q.forecastAt.Add(denied.RetryAfter)
	if known && !w.deadline.IsZero() && at.After(w.deadline) {
		from := q.forecastAt.Add(q.forecast.Earliest(0, w.Permits))
		at = from.Add(max(0, w.deadline.Sub(from)) / 2)
	}
	return at
}

// missedBy returns the earliest time after now at which a waiter can be served behind others that
// want ahead permits, if that is after its deadline. It returns 0 if the waiter may be served in
// time.
func (q *queue) missedBy(w *waiter, ahead int64, now time.Time) time.Duration {
	if w.deadline.IsZero() || q.forecast == nil {
		return 0
	}
	after := q.forecast.Earliest(ahead, w.Permits)
	if after < Never {
		after -= now.Sub(q.forecastAt)
	}
	if after <= w.deadline.Sub(now) {
		return 0
	}
	return max(after, 1)
}

// catchUp is how many permits more than the limit can serve a call asks for. A bucket that was full before a
// late call serves them: see Batch.Waited.
const catchUp = 64

// fillBatch makes a batch of the first waiters: as many as can be served at once. If the first
// cannot be served yet, the batch has only that one.
func (q *queue) fillBatch() {
	b := &q.batch
	b.Requests, q.inCall = b.Requests[:0], q.inCall[:0]
	b.Forecast, b.receipts = nil, false // the queue keeps the forecast
	b.Waited = time.Since(q.waiters.first.since)
	most := int64(MaxPermits)
	if q.forecast != nil {
		most = q.forecast.Limit() + catchUp
	}
	firstOnly := q.replied && !q.fresh.changed && q.servable(q.waiters.first).After(time.Now())
	var sum, servable int64
	for w := q.waiters.first; w != nil && len(b.Requests) < MaxRequests; w = w.next {
		// One more than can be served, so that the reply has the wait of that one.
		if len(b.Requests) > 0 && (firstOnly || servable > most || w.Permits > MaxPermits-sum) {
			break
		}
		sum += w.Permits
		if w.Permits <= most {
			servable += w.Permits
		}
		w.state = inFlight
		b.receipts = b.receipts || w.Receipt
		b.Requests = append(b.Requests, &w.Request)
		q.inCall = append(q.inCall, w)
	}
	if q.fresh.changed {
		q.checked = time.Time{} // the reply may deny any waiter
	}
	q.fresh.call()
}

// serveFrom serves waiters from leases, in order, and returns those to wake.
func (q *queue) serveFrom(h *leaseSet) (done []*waiter) {
	if h == nil {
		return nil
	}
	now := time.Now()
	for i := range h.leases {
		s := &h.leases[i]
		for w := q.waiters.first; w != nil && w.Permits <= s.unused && !s.expired(now) &&
			len(done) < MaxRequests; w = q.waiters.first {
			s.unused -= w.Permits
			w.Allowed, w.Granted, w.From, w.Refund = true, w.Permits, FromLease, s.Return
			w.deliver(nil)
			q.remove(w)
			done = append(done, w)
		}
	}
	return done
}

// applyAnswers applies the answers of a call. It removes and returns the waiters that were granted
// permits, or whose request failed. The others keep their places.
func (q *queue) applyAnswers(err error) (done []*waiter) {
	b := &q.batch
	lowered := b.Forecast != nil && q.forecast != nil && b.Forecast.Limit() < q.forecast.Limit()
	if now := time.Now(); err != nil || q.replied && (lowered || q.outdated(now)) {
		q.fresh.checkAll(q.waiters.first)
		q.checked = now
	}
	q.replied, q.forecastAt, q.forecast = err == nil, b.forecastAt, b.Forecast
	if q.lag, q.took = 0, time.Since(b.sent.at); b.Forecast != nil {
		q.lag = b.Forecast.Lag()
	}
	for _, w := range q.inCall {
		if w.state != abandoned && err == nil && !w.Allowed && w.Err == nil {
			w.state = queued
			continue
		}
		left := w.state == abandoned
		if w.deliver(err) {
			b.Lost = append(b.Lost, &w.Request)
		}
		if !left {
			q.remove(w)
			done = append(done, w)
		}
	}
	b.count(err)
	return done
}

// checkEvery is the least time between two checks of all waiters of a long queue, since that takes long.
const checkEvery = 100 * time.Millisecond

// outdated reports whether waiters that passed the check before are to be checked again: other Clients may
// have taken permits since.
func (q *queue) outdated(now time.Time) bool {
	return now.Sub(q.checked) >= checkEvery || atomic.LoadInt32(&q.batch.sent.callers) <= MaxRequests
}
