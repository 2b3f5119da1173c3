package rratelimiter

import (
	"context"
	"fmt"
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

// waiter is a request that stands in the queue.
type waiter struct {
	request
	arrival    uint64
	next, prev *waiter
	done       chan struct{} // has one element once the answer is there
	deadline   time.Time     // the latest moment at which it wants to be served; zero for none
}

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

// errTooLate says that a waiter's deadline lies before the earliest moment at which it could be served.
type errTooLate struct {
	permits int64
	name    string
	after   time.Duration
}

func (e *errTooLate) Error() string {
	return fmt.Sprintf("rratelimiter: %d permits of %q cannot be had before the deadline, in %v at the earliest", e.permits, e.name, e.after)
}

// Unwrap makes it the error that the context would have given in the end.
func (e *errTooLate) Unwrap() error { return context.DeadlineExceeded }

// wait stands in line until permits were granted, the deadline makes that impossible (*errTooLate), the deadline passes
// without an answer, or ctx ends.
func (l *Limiter) wait(ctx context.Context, permits int64, deadline time.Time) error {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return err
	}
	var expired <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
	}
	if end, ok := ctx.Deadline(); ok && (deadline.IsZero() || end.Before(deadline)) {
		deadline = end
	}
	w := &waiter{request: request{permits: permits}, done: make(chan struct{}, 1), deadline: deadline}
	e := l.join(w)
	var last <-chan time.Time
	for {
		select {
		case <-w.done:
			_, err := w.result()
			return err
		case <-ctx.Done():
			if l.withdraw(e, w) {
				return ctx.Err()
			}
		case <-expired:
			if refused, gone := l.timeOut(e, w); gone {
				return refused
			}
			timer := time.NewTimer(lastTry)
			defer timer.Stop()
			expired, last = nil, timer.C
		case <-last:
			if l.withdraw(e, w) {
				return fmt.Errorf("rratelimiter: limiter %q: Redis has not answered before the timeout: %w", l.name, context.DeadlineExceeded)
			}
		}
	}
}

// join puts a waiter at the end of the queue.
func (l *Limiter) join(w *waiter) *entry {
	c := l.client
	e := c.names.lock(l)
	defer e.mu.Unlock()
	q := e.queue
	if q == nil {
		q = &queue{changed: make(chan struct{}, 1)}
		q.batch.ordered = true
		e.queue = q
		go l.serve(e, q)
	}
	q.came++
	w.arrival = q.came
	q.waiters.push(w)
	if q.unjudged == nil {
		q.unjudged, q.ahead = w, q.wanted
	}
	before := q.wanted
	q.wanted.add(w.permits)
	if len(q.taken) == 0 && q.askBy(w, before) {
		q.wake()
	}
	return e
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

// withdraw takes a waiter out of the queue whose caller has gone. It says false where the answer is there already.
func (l *Limiter) withdraw(e *entry, w *waiter) bool {
	e.mu.Lock() // it may be another name's entry by now, but not before the answer is there
	defer e.mu.Unlock()
	if w.state == answered {
		return false
	}
	w.state = abandoned
	e.queue.remove(w)
	return true
}

// timeOut takes a waiter whose timeout has ended out of the queue, if Redis has been asked for it since it came. Else, or
// where it is in a call, its answer is still worth waiting for.
func (l *Limiter) timeOut(e *entry, w *waiter) (refused error, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.state != queued || w.arrival > e.queue.asked {
		return nil, false
	}
	w.state = abandoned
	e.queue.remove(w)
	return &errTooLate{w.permits, l.name, 0}, true
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

// serve asks Redis for those who wait, until nobody does.
func (l *Limiter) serve(e *entry, q *queue) {
	c := l.client
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Those who come at the same moment, or whom the last answer woke, can still join.
		c.yields.yield()
		e.mu.Lock()
		if q.waiters.first == nil {
			e.queue = nil
			c.names.unlock(e)
			return
		}
		if pause := time.Until(q.next()); pause > 0 {
			e.mu.Unlock()
			timer.Reset(pause)
			select {
			case <-timer.C:
			case <-q.changed:
			}
			continue
		}
		began := q.came
		q.leave()
		e.mu.Unlock()

		err := l.acquire(context.Background(), &q.batch)

		e.mu.Lock()
		lost, done := q.deliver(err)
		granted := q.batch.granted(lost)
		e.mu.Unlock()
		wakeAll(done)
		l.giveBack(context.Background(), &q.batch, granted, lost)
		l.judge(e, q, began, err)
	}
}

func wakeAll(done []*waiter) {
	for _, w := range done {
		w.done <- struct{}{}
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

// judge takes those out of the queue, of all who had come when a call began, whose call it was that failed, or who would
// wait in vain, as its answer says. It does so page by page, so that whoever comes or goes meanwhile need not wait.
func (l *Limiter) judge(e *entry, q *queue, began uint64, err error) {
	first := true
	for more := true; more; first = false {
		var done []*waiter
		e.mu.Lock()
		switch {
		case err != nil:
			done, more = q.failed(began, err)
		case first:
			q.asked = began
			done = l.inVain(q, q.waiters.first, len(q.batch.requests))
		default:
			done, more = l.newcomers(q, began)
		}
		e.mu.Unlock()
		wakeAll(done)
	}
}

// failed answers a page of those who had come by then with the error of their call.
func (q *queue) failed(began uint64, err error) (done []*waiter, more bool) {
	for w := q.waiters.first; w != nil && w.arrival <= began; w = w.next {
		if len(done) == mostRequests {
			return done, true
		}
		w.deliver(err)
		q.remove(w)
		done = append(done, w)
	}
	return done, false
}

// inVain takes those of a page at the head of the queue out who cannot be served in time any more.
func (l *Limiter) inVain(q *queue, w *waiter, page int) (done []*waiter) {
	now := time.Now()
	var ahead total
	for ; page > 0 && w != nil && w != q.unjudged; page-- {
		next := w.next
		if l.refuse(q, w, ahead, now) {
			done = append(done, w)
		} else {
			ahead.add(w.permits)
		}
		w = next
	}
	return done
}

// newcomers judges a page of those who had come by then, and when all are, sees to it that those who have come since are
// asked for in time.
func (l *Limiter) newcomers(q *queue, began uint64) (done []*waiter, more bool) {
	now := time.Now()
	for page := mostRequests; q.unjudged != nil && q.unjudged.arrival <= began; page-- {
		if page == 0 {
			return done, true
		}
		w := q.unjudged
		if l.refuse(q, w, q.ahead, now) {
			done = append(done, w) // and unjudged is who stands behind it
			continue
		}
		q.ahead.add(w.permits)
		q.unjudged = w.next
	}
	ahead := q.ahead
	for w, page := q.unjudged, mostRequests; w != nil; w, page = w.next, page-1 {
		if page == 0 {
			q.due = now
			break
		}
		q.askBy(w, ahead)
		ahead.add(w.permits)
	}
	return done, false
}

// refuse takes a waiter out of the queue whom what is known refuses.
func (l *Limiter) refuse(q *queue, w *waiter, ahead total, now time.Time) bool {
	var err error
	if q.rate > 0 && w.permits > q.rate {
		err = l.aboveRate(w.permits, q.rate)
	} else if after := q.late(w, ahead, now); after > 0 {
		err = &errTooLate{w.permits, l.name, after}
	} else {
		return false
	}
	w.deliver(err)
	q.remove(w)
	return true
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
