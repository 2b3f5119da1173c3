package engine

import "time"

// freshness records which waiters of a queue Redis must be asked about again: a waiter is denied only
// by a reply to a call that was sent after its arrival.
type freshness struct {
	arrived    uint64 // the newest arrival
	called     uint64 // the newest arrival before the last call
	replied    uint64 // the newest arrival before a call that was answered
	firstWaits bool   // a reply did not serve the first waiter: it waits for permits, not only for Redis

	unchecked *waiter // the first that no forecast from after its arrival was compared with
	ahead     int64   // the permits of the waiters before it

	changed bool      // this Client has changed the limiter: Redis is to be asked at once
	due     time.Time // the latest time of a call for a new waiter; zero for none
}

// freshEnough bounds the age of the forecast: a new waiter that it does not deny causes a call within
// this time.
const freshEnough = time.Second

// arrive numbers a new waiter, behind others that want permits.
func (f *freshness) arrive(w *waiter, wanted int64) {
	f.arrived++
	w.arrival = f.arrived
	if f.unchecked == nil {
		f.unchecked, f.ahead = w, wanted
	}
}

// leave forgets a waiter that is removed from the queue.
func (f *freshness) leave(w *waiter) {
	switch {
	case f.unchecked == nil:
	case w == f.unchecked:
		f.unchecked = w.next
	case w.arrival < f.unchecked.arrival:
		f.ahead -= w.Permits
	}
}

// plan plans a call for a new waiter, and reports whether it is sooner than planned before.
func (f *freshness) plan(due time.Time) bool {
	if !f.due.IsZero() && !due.Before(f.due) {
		return false
	}
	f.due = due
	return true
}

// next returns the time of the next call, which is at unless a new waiter needs an earlier one.
func (f *freshness) next(at time.Time) time.Time {
	if f.due.IsZero() {
		return at
	}
	return earliest(at, f.due)
}

// call records that a call is sent.
func (f *freshness) call() {
	f.called = f.arrived
	f.changed, f.due = false, time.Time{}
}

// knows reports whether the last call was sent after a waiter had arrived.
func (f *freshness) knows(w *waiter) bool { return w.arrival <= f.called }

// checkAll begins the check of all waiters again, at the first one.
func (f *freshness) checkAll(first *waiter) { f.unchecked, f.ahead = first, 0 }

// toCheck returns the next waiter that the reply to the last call may deny, or nil.
func (f *freshness) toCheck() *waiter {
	if f.unchecked == nil || !f.knows(f.unchecked) {
		return nil
	}
	return f.unchecked
}

// pass records that a waiter of toCheck stays.
func (f *freshness) pass(w *waiter) {
	f.ahead += w.Permits
	f.unchecked = w.next
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
