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
// Arriving, leaving and being served take the same time at any length. The entry guards the queue.
type queue struct {
	waiters list
	wanted  int64         // the permits of all waiters
	woken   chan struct{} // has an element if the goroutine has to check the queue

	// Waiters are numbered: one is denied only by a reply to a call that was sent after its arrival, see
	// calledAfter. firstWaits is only for an Observer.
	arrived    uint64    // the newest waiter
	calledFor  uint64    // the newest waiter before the last call
	repliedFor uint64    // the newest waiter before the last call that was answered
	dueForNew  time.Time // the latest time of a call for a new waiter; zero for none
	stale      bool      // this Client has changed the limiter: Redis is to be asked at once
	firstWaits bool      // a reply did not serve the first waiter: it waits for permits, not only for Redis
	unchecked  *waiter   // the first that no forecast from after its arrival was compared with
	ahead      int64     // the permits of the waiters before unchecked

	// From the last call.
	replied    bool
	checked    time.Time     // when all waiters were checked again
	forecast   Forecast      // nil if the reply had none
	forecastAt time.Time     // when the forecast begins
	lag        time.Duration // of the forecast
	turn       bool          // of the last call: see Outcome.Turn
	took       time.Duration
	due        time.Time // when the first waiter could be served, by the forecast
	repliedAt  time.Time // when the reply arrived, or the queue began

	batch  Batch
	inCall []*waiter // of the batch

	id       string        // among the queues of all Clients
	sharedAt time.Time     // of the last call with a Share
	alone    bool          // no other Client had waiters then
	slow     time.Duration // of the calls of a Client for which permits were held
}

// shareAgain is how long a Client whose waiters were the only ones asks without a Share.
const shareAgain = 250 * time.Millisecond

// share sets the Share of the batch.
func (q *queue) share(call time.Duration, sum int64) {
	if q.alone && time.Since(q.sharedAt) < shareAgain {
		return
	}
	q.sharedAt = time.Now()
	q.batch.Share = Share{ID: q.id, Late: call + shortestCall, Rest: q.wanted - sum}
}

// add adds a waiter to the end of the queue, and plans the call that answers it.
func (q *queue) add(w *waiter) {
	q.arrived++
	w.arrival, w.forPermits = q.arrived, q.firstWaits && q.waiters.first != nil
	if q.unchecked == nil {
		q.unchecked, q.ahead = w, q.wanted
	}
	q.waiters.push(w)
	q.batch.sent.callers.Add(1)
	ahead := q.wanted
	q.wanted += w.Permits
	if len(q.inCall) == 0 && q.askBy(w, ahead) { // else see askForNew
		q.wake()
	}
}

// askForNew plans the call that answers the waiters that arrived during the last one.
func (q *queue) askForNew(now time.Time) {
	ahead := q.ahead
	for w, page := q.unchecked, MaxRequests; w != nil; w, page = w.next, page-1 {
		if page == 0 {
			q.dueForNew = now
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
		if due = q.forecastAt.Add(freshEnough + q.lag); !w.deadline.IsZero() && !q.polls() {
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

// polls reports whether permits may return at any time, by the last forecast. Then a call is sent after each
// RetryAfter, and none before it for a new waiter: one whose deadline is earlier ends without a call.
func (q *queue) polls() bool {
	if q.forecast == nil {
		return false
	}
	permits := q.waiters.first.Permits
	denied, known := q.forecast.Denied(permits)
	isRecent := time.Since(q.forecastAt) < 2*denied.RetryAfter // else Redis does not answer
	return isRecent && !known && q.forecast.Earliest(0, permits) < denied.RetryAfter
}

// remove removes a waiter. If it was the first, the next one may be servable.
func (q *queue) remove(w *waiter) {
	switch {
	case q.unchecked == nil:
	case w == q.unchecked:
		q.unchecked = w.next
	case w.arrival < q.unchecked.arrival:
		q.ahead -= w.Permits
	}
	w.forPermits = w.forPermits || q.firstWaits
	first := w == q.waiters.first
	q.waiters.remove(w)
	q.batch.sent.callers.Add(-1)
	q.wanted -= w.Permits
	if first {
		q.wake()
	}
}

// wake makes the goroutine of the queue check it.
func (q *queue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// AskAgain is how long after a reply the next call is sent at the latest: other Clients may have returned
// permits, ended a pause or changed the rate.
const AskAgain = 5 * time.Second

// next returns when to send the next call, and records when the first waiter could be served.
func (q *queue) next() time.Time {
	if !q.replied || q.stale {
		return time.Time{}
	}
	at := q.servable()
	q.due = at
	lagged := at
	if q.lag > 0 && at.After(q.forecastAt) && (q.turn || !q.missed(at.Sub(q.forecastAt))) {
		at = at.Add(q.lag)
		lagged = at
	}
	again := AskAgain
	if q.alone && q.batch.Share.ID == "" {
		again = shareAgain // another Client may wait now: waiters are dated by the clock that is ahead
	}
	if q.forecast != nil {
		again = min(again, q.forecast.Renew())
	}
	at = earliest(at, q.forecastAt.Add(again))
	if !q.dueForNew.IsZero() {
		at = earliest(at, q.dueForNew)
	}
	if q.turn && !at.Before(q.due) && at.Before(lagged) {
		return lagged // a call for another waiter would take the permits too
	}
	return at
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

// servable returns when to send a call for the first waiter, by the last forecast. That
// can be later than Earliest. A call at the end of another Client's prefetch may find its unused
// permits not yet returned. Then the next call would be an interval later. If the time is known and
// after the deadline of the waiter, it is halfway between Earliest and the deadline.
func (q *queue) servable() time.Time {
	w := q.waiters.first
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
// time. A call for permits that were not free before takes as long as the last one. Otherwise a call
// in a long queue would ask for waiters that all leave before its reply.
func (q *queue) missedBy(w *waiter, ahead int64, now time.Time) time.Duration {
	if w.deadline.IsZero() || q.forecast == nil {
		return 0
	}
	after := q.forecast.Earliest(ahead, w.Permits)
	if after > 0 && after < Never {
		after = max(0, after-now.Sub(q.forecastAt)) + q.took
	}
	if after <= w.deadline.Sub(now) {
		return 0
	}
	return max(after, 1)
}

// deny sets the result of a waiter that is denied behind others that want ahead permits, by the last forecast.
func (q *queue) deny(result *Result, w *waiter, ahead int64, now time.Time) {
	if *result = (Result{}); q.forecast == nil || !w.Detail {
		return
	}
	age := now.Sub(q.forecastAt)
	*result, _ = deniedBy(q.forecast, w.Ask, age)
	result.RetryAfter = max(soon, result.RetryAfter, q.forecast.Earliest(ahead, w.Permits)-age)
}

// soon is the RetryAfter of a waiter that is denied although its permits may be free: its reply has not arrived in
// time.
const soon = time.Millisecond

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

// callTook returns the time of the call whose reply has arrived. A timer and a lag before it count too, but
// never more than shortestCall.
func (q *queue) callTook() time.Duration {
	took, due := time.Since(q.batch.sent.at), q.due
	if due.Before(q.repliedAt) {
		due = q.repliedAt
	}
	return took + min(shortestCall, max(0, q.batch.sent.at.Sub(due)))
}

// fillBatch makes a batch of the first waiters: as many as can be served at once, after a call of that
// time. One more is in it, so that the reply has the wait of that one. If the first cannot be served yet, the
// batch has only that one.
func (q *queue) fillBatch(call time.Duration, shares bool) {
	b := &q.batch
	b.Requests, q.inCall = b.Requests[:0], q.inCall[:0]
	b.Backdate = min(max(call, q.slow), time.Since(q.waiters.first.since))
	most := int64(MaxPermits)
	if q.forecast != nil {
		most = q.forecast.Limit()
	}
	by := time.Since(q.forecastAt) + call
	var sum, servable int64
	last := q.replied && !q.stale && q.servable().After(time.Now().Add(call)) // only the first
	for w := q.waiters.first; w != nil && len(b.Requests) < MaxRequests; w = w.next {
		if len(b.Requests) > 0 && (last || w.Permits > MaxPermits-sum) {
			break
		}
		sum += w.Permits
		if w.Permits <= most {
			servable += w.Permits
			last = last || servable > most && q.forecast.Earliest(servable-w.Permits, w.Permits) > by
		}
		w.state.Store(inFlight)
		b.Requests = append(b.Requests, &w.Request)
		q.inCall = append(q.inCall, w)
	}
	q.batch.Share = Share{}
	if shares {
		q.share(call, sum)
	}
	if q.stale {
		q.checked = time.Time{} // the reply may deny any waiter
	}
	q.calledFor, q.stale, q.dueForNew = q.arrived, false, time.Time{}
}

// serveFrom serves waiters from prefetches, in order, and returns those to wake.
func (q *queue) serveFrom(h *prefetchSet) (done []*waiter) {
	now := time.Now()
	for i := range h.prefetches {
		s := &h.prefetches[i]
		for w := q.waiters.first; w != nil && w.Permits <= s.unused && !s.expired(now) &&
			len(done) < MaxRequests; w = q.waiters.first {
			h.grant(s, w.Ask, &w.Result, now)
			w.finish(nil)
			q.remove(w)
			done = append(done, w)
		}
	}
	return done
}

// applyReply applies the reply to a call. It removes and returns the waiters that were granted permits, or
// whose request failed. The others keep their places.
func (q *queue) applyReply(times *callTime) (done []*waiter) {
	b, err := &q.batch, q.batch.err
	if err == nil {
		times.add(q.callTook())
		q.took = min(time.Since(b.sent.at), times.get())
	}
	lowered := b.Forecast != nil && q.forecast != nil && b.Forecast.Limit() < q.forecast.Limit()
	// Other Clients may have taken permits since the last check.
	now := time.Now()
	outdated := now.Sub(q.checked) >= checkEvery || b.sent.callers.Load() <= MaxRequests
	if err != nil || q.replied && (lowered || outdated) {
		q.unchecked, q.ahead, q.checked = q.waiters.first, 0, now
	}
	q.replied, q.forecastAt, q.forecast, q.repliedAt = err == nil, b.forecastAt, b.Forecast, time.Now()
	for _, w := range q.inCall {
		if w.state.Load() == answered {
			q.remove(w)
			done = append(done, w)
		}
	}
	if q.lag, q.turn = 0, b.Turn; b.Forecast != nil {
		q.lag = b.Forecast.Lag(q.wanted)
	}
	if err == nil {
		q.repliedFor = q.calledFor
		if b.Share.ID != "" {
			q.alone = !b.Shared.Others
			if q.alone || b.Shared.Slow > 0 {
				q.slow = min(b.Shared.Slow, LongestCall)
			}
		}
	}
	clear(q.inCall)
	q.inCall = q.inCall[:0]
	return done
}

// checkEvery is the least time between two checks of all waiters of a long queue, since that takes long.
const checkEvery = 100 * time.Millisecond

// freshEnough bounds the age of the forecast: a new waiter that it does not deny causes a call within
// this time.
const freshEnough = time.Second

// calledAfter reports whether the last call was sent after a waiter had arrived.
func (q *queue) calledAfter(w *waiter) bool { return w.arrival <= q.calledFor }

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// list holds the waiters in order of arrival.
type list struct{ first, last *waiter }

func (q *list) push(w *waiter) {
	w.prev, w.next = q.last, nil
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
