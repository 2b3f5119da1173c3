package rratelimiter

import (
	"sort"
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
	waiters list
	wanted  total  // the permits of all who wait
	came    uint64 // the newest arrival
	asked   uint64 // whoever had come by then has been asked for: a call that began later has been answered

	// The arrivals that no answer has judged yet, since none was to a call that began after they came.
	unjudged *waiter
	ahead    total // the permits of those before it

	changed chan struct{} // has an element where the goroutine has to look again
	ask     bool          // at once: something has changed
	due     time.Time     // when somebody who came is to be asked for at the latest; zero for nobody

	// What the last call said.
	known   bool
	rate    int64 // 0 where it did not say
	every   time.Duration
	free    int64
	returns []returning // after the moment at; the permits of those before it included
	at      time.Time

	batch batch
	taken []*waiter // those of the batch
}

const (
	// Who cannot be refused, as far as is known, is asked for within so long of the last call.
	freshEnough = time.Second
	// A request that is at Redis when its timeout ends has so long to be answered: a timeout below a round trip is one
	// try, as in Redisson.
	lastTry = 100 * time.Millisecond
)

// list is the waiters in their order.
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

// askBy sees to it that Redis is asked for a waiter behind others in time, and says whether that is sooner than it would
// have been.
func (q *queue) askBy(w *waiter, ahead total) bool {
	now := time.Now()
	due := now
	if q.known && !q.refuses(w, ahead, now) {
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

// refuses says whether what is known would refuse a waiter.
func (q *queue) refuses(w *waiter, ahead total, now time.Time) bool {
	return q.rate > 0 && w.permits > q.rate || q.late(w, ahead, now) > 0
}

// remove takes a waiter off.
func (q *queue) remove(w *waiter) {
	if q.unjudged != nil {
		switch {
		case w == q.unjudged:
			q.unjudged = w.next
		case w.arrival < q.unjudged.arrival:
			q.ahead.sub(w.permits)
		}
	}
	first := w == q.waiters.first
	q.waiters.remove(w)
	q.wanted.sub(w.permits)
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

// next says when it is time to ask.
func (q *queue) next() time.Time {
	if !q.known || q.ask {
		return time.Time{}
	}
	at := q.servable(q.waiters.first.permits)
	if !q.due.IsZero() {
		at = earliest(at, q.due)
	}
	return at
}

// servable says when so many permits, at most the rate, could be free at the earliest, as far as the last call told.
func (q *queue) servable(permits int64) time.Time {
	need := permits - q.free
	if need <= 0 || len(q.returns) == 0 {
		return q.at
	}
	i := sort.Search(len(q.returns)-1, func(i int) bool { return q.returns[i].permits >= need })
	return q.at.Add(q.returns[i].after)
}

// late says by how much a waiter's deadline lies before the earliest moment at which it could be served, behind others
// who want ahead permits; 0 where it may be served in time.
//
// Those permits come back one after another, and once more, an interval after they were granted again, where more is
// wanted than the rate.
func (q *queue) late(w *waiter, ahead total, now time.Time) time.Duration {
	const never = time.Duration(1<<63 - 1)
	if w.deadline.IsZero() || q.rate == 0 {
		return 0
	}
	ahead.add(w.permits)
	times, rest, ok := ahead.rounds(q.rate)
	after := q.servable(rest).Sub(now)
	switch every := uint64(q.every); {
	case !ok || times > 0 && every > uint64(never)/times:
		after = never
	case after > never-time.Duration(times*every):
		after = never
	default:
		after += time.Duration(times * every)
	}
	if after <= w.deadline.Sub(now) {
		return 0
	}
	return max(after, 1)
}

// leave makes a call of those who come first: as many as the rate could serve at once, or, where the first cannot be
// served yet, the first alone, for what the answer says.
func (q *queue) leave() {
	b := &q.batch
	b.requests, q.taken = b.requests[:0], q.taken[:0]
	most := int64(maxPermits)
	if q.rate > 0 {
		most = q.rate
	}
	look := q.known && !q.ask && q.servable(q.waiters.first.permits).After(time.Now())
	var sum, servable int64
	for w := q.waiters.first; w != nil && len(b.requests) < mostRequests; w = w.next {
		// One more than the rate serves is the one that the answer tells the waits of.
		if len(b.requests) > 0 && (look || servable > most || w.permits > maxPermits-sum) {
			break
		}
		sum += w.permits
		if w.permits <= most {
			servable += w.permits
		}
		w.state = inFlight
		b.requests = append(b.requests, &w.request)
		q.taken = append(q.taken, w)
	}
	q.ask, q.due = false, time.Time{}
}

// deliver makes the answers of a call final: those who were granted permits, or whose request failed, leave the queue;
// the others stay where they are. It tells how many permits came for callers that had gone, and whom to wake.
func (q *queue) deliver(err error) (lost int64, done []*waiter) {
	b := &q.batch
	if q.known && err == nil && q.worse(b) {
		// Who was judged before would have been told otherwise now.
		q.unjudged, q.ahead = q.waiters.first, total{}
	}
	q.known = err == nil
	q.rate, q.every, q.free, q.at = b.rate, b.interval, b.free, b.asked
	q.returns = append(q.returns[:0], b.returns...)
	var back int64
	for i := range q.returns {
		back += q.returns[i].permits
		q.returns[i].permits = back
	}
	for _, w := range q.taken {
		if w.state != abandoned && err == nil && !w.decision.Allowed && w.err == nil && w.panicked == nil {
			w.state = queued
			continue
		}
		gone := w.state == abandoned
		lost += w.deliver(err)
		if !gone {
			q.remove(w)
			done = append(done, w)
		}
	}
	clear(q.taken)
	q.taken = q.taken[:0]
	return lost, done
}

// worse says whether somebody who was judged by what is known may wait in vain by what a call says: the rate was lowered, the
// interval lengthened, or the first was to be served by now and is not.
func (q *queue) worse(b *batch) bool {
	first := q.taken[0]
	return b.rate < q.rate || b.interval > q.every ||
		first.err == nil && !first.decision.Allowed && first.panicked == nil && !q.servable(first.permits).After(b.sent)
}

// poke lets those who wait for a limiter ask at once, and forgets what denied it.
func (c *Client) poke(key string) {
	c.denials.forget(key)
	e := c.names.find(key)
	if e == nil {
		return
	}
	if e.queue != nil {
		e.queue.ask = true
		e.queue.wake()
	}
	c.names.unlock(e)
}
