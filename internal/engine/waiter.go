package engine

import (
	"context"
	"fmt"
	"time"
)

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

// errDeadline is the error of a waiter whose deadline is before the earliest time at which it could
// be served.
type errDeadline struct {
	permits int64
	name    string
	after   time.Duration // until then; 0 if the deadline has passed
}

func (e *errDeadline) Error() string {
	text := fmt.Sprintf("rratelimiter: %d permits of %q cannot be had before the deadline", e.permits, e.name)
	if after := e.after.Round(time.Microsecond); after > 0 {
		text += fmt.Sprintf(", in %v at the earliest", after)
	}
	return text
}

// Unwrap returns the error that the context would have returned in the end.
func (e *errDeadline) Unwrap() error { return context.DeadlineExceeded }
