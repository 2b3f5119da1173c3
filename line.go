package rratelimiter

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// line is where the callers of Acquire and TryAcquireWithin for one limiter's name stand, first come first served.
// One goroutine, which lives as long as somebody stands here, asks Redis for all of them when the first could be
// served. Client.mu guards the line.
type line struct {
	waiters []*waiter
	wanted  int64         // the permits of all waiters together
	changed chan struct{} // has an element where the goroutine has to look again: the first left, or permits are back
	poked   bool          // permits are back: ask at once

	// What the last call said, for those who come while the line sleeps.
	known   bool
	free    int64
	returns []returning // after the moment asked
	asked   time.Time
}

// waiter is a request that stands in line.
type waiter struct {
	request
	done     chan struct{} // has one element once the answer is there
	asked    bool          // Redis has been asked for it
	deadline time.Time     // the latest moment at which it wants to be served; zero for none
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

// wait stands in line until permits were granted, the deadline makes that impossible (*errTooLate) or ctx ends.
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
	if err := l.join(w); err != nil {
		return err
	}
	for {
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			if l.leave(w, true) {
				return ctx.Err()
			}
			<-w.done
			return w.err
		case <-expired:
			// A request that is under way, or about to be, is worth its answer: a timeout below a round trip is one
			// try, as in Redisson.
			if l.leave(w, false) {
				return &errTooLate{permits, l.name, 0}
			}
		}
	}
}

// join puts a waiter at the end of the line, unless it is clear already that it would wait in vain.
func (l *Limiter) join(w *waiter) error {
	c, name := l.client, l.keys[configKey]
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.lines[name]
	if queue == nil {
		queue = &line{changed: make(chan struct{}, 1)}
		c.lines[name] = queue
		go l.serve(queue)
	}
	if queue.known {
		if late := queue.tooLate(l.name, w, queue.wanted); late != nil {
			return late
		}
	}
	queue.waiters = append(queue.waiters, w)
	queue.wanted += w.permits
	return nil
}

// leave takes a waiter out of the line. It says false where the waiter stays for an answer that is there already or,
// unless the caller gives it up, under way or in the call that is about to begin.
func (l *Limiter) leave(w *waiter, giveUp bool) bool {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.lines[l.keys[configKey]]
	switch w.state {
	case queued:
		if !giveUp && !w.asked && queue.pause() <= 0 {
			return false
		}
		i := slices.Index(queue.waiters, w)
		queue.waiters = slices.Delete(queue.waiters, i, i+1)
		queue.wanted -= w.permits
		if i == 0 {
			queue.change()
		}
		return true
	case flying:
		if giveUp {
			w.state = abandoned
		}
		return giveUp
	}
	return false
}

// change makes the line's goroutine look again.
func (q *line) change() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// poke lets the line of a limiter ask at once, and forgets what denied it: this client gave permits back or changed
// the rate.
func (l *Limiter) poke() {
	c := l.client
	c.denials.forget(l.keys[configKey])
	c.mu.Lock()
	defer c.mu.Unlock()
	if queue := c.lines[l.keys[configKey]]; queue != nil {
		queue.poked = true
		queue.change()
	}
}

// serve asks Redis for those who stand in line whenever the first could be served, until nobody is left.
func (l *Limiter) serve(queue *line) {
	c := l.client
	f := &flight{ordered: true, args: make([]string, 0, cursorArg+1)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Those who come at the same moment, or whom the last answer woke, can still join.
		c.courtesy.giveWay()
		c.mu.Lock()
		if len(queue.waiters) == 0 {
			delete(c.lines, l.keys[configKey])
			c.mu.Unlock()
			return
		}
		if pause := queue.pause(); pause > 0 {
			c.mu.Unlock()
			timer.Reset(pause)
			select {
			case <-timer.C:
			case <-queue.changed:
			}
			continue
		}
		queue.board(f)
		c.mu.Unlock()

		err := l.acquire(context.Background(), f)

		c.mu.Lock()
		lost, done := queue.deliver(l.name, f, err)
		granted := f.granted(lost)
		c.mu.Unlock()
		for _, w := range done {
			w.done <- struct{}{}
		}
		l.giveBack(context.Background(), f, granted, lost)
	}
}

// pause says how long nobody in line can be served, 0 where it is time to ask.
func (q *line) pause() time.Duration {
	if !q.known || q.poked {
		return 0
	}
	return time.Until(q.servable(q.waiters[0].permits))
}

// servable says when so many permits could be free at the earliest, as far as the last call told.
func (q *line) servable(permits int64) time.Time {
	return q.asked.Add(freeAfter(q.returns, permits-q.free))
}

// tooLate is the error of a waiter that could be served only after its deadline, behind others who want ahead
// permits, or nil.
func (q *line) tooLate(name string, w *waiter, ahead int64) error {
	if w.deadline.IsZero() {
		return nil
	}
	now := time.Now()
	at := q.servable(ahead + w.permits)
	if at.Before(now) {
		if !w.asked {
			return nil // it may be served by the call that is about to begin
		}
		at = now
	}
	if !at.After(w.deadline) {
		return nil
	}
	return &errTooLate{w.permits, name, at.Sub(now)}
}

// board makes a call of all who stand in line, as many as one call can add up.
func (q *line) board(f *flight) {
	f.batch = f.batch[:0]
	var total int64
	for _, w := range q.waiters {
		if total += w.permits; total > maxPermits {
			break
		}
		w.state, w.asked = flying, true
		f.batch = append(f.batch, &w.request)
	}
	q.poked = false
}

// deliver makes the answers of a call final: those who were granted permits, or whose request failed, leave the line,
// and so do those who would wait in vain; the others stay in their order. It tells how many permits came for callers
// that had gone, and whom to wake.
func (q *line) deliver(name string, f *flight, err error) (lost int64, done []*waiter) {
	q.known = err == nil
	q.free, q.asked = f.free, f.asked
	q.returns = append(q.returns[:0], f.returns...)
	stay := q.waiters[:0]
	q.wanted = 0
	for i, w := range q.waiters {
		asked := i < len(f.batch)
		granted := asked && err == nil && w.decision.Allowed
		if w.state == abandoned {
			if granted {
				lost += w.permits
			}
			continue
		}
		if asked && err != nil {
			w.err = err
		}
		if !granted && w.err == nil && q.known {
			w.err = q.tooLate(name, w, q.wanted)
		}
		if granted || w.err != nil {
			w.state = answered
			done = append(done, w)
			continue
		}
		w.state = queued
		q.wanted += w.permits
		stay = append(stay, w)
	}
	clear(q.waiters[len(stay):])
	q.waiters = stay
	return lost, done
}
