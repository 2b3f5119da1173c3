package engine

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// A waiter of a limiter with Ahead gets a reservation: permits that it may use from a time on. The
// queue reserves for its first waiters only, up to Ahead. It reserves for the next ones when half of
// that has passed. So callers that leave, and a process that ends, keep little from others. The first
// waiter gets its reservation however far ahead it is, if no other one of this process waits for its
// time.

// within returns how far ahead the reservation of a waiter may be.
func (l *Limiter) within(w *waiter) time.Duration {
	within := l.Ahead
	if w.only {
		within = Never
	}
	if !w.deadline.IsZero() {
		within = min(within, max(0, time.Until(w.deadline)))
	}
	return within
}

// countReservations counts those of waiters that have just got theirs. The entry is locked.
func (e *entry) countReservations(served []*waiter) {
	for _, w := range served {
		if w.Err == nil && !w.At.IsZero() {
			e.reserved++
		}
	}
}

// awaitTime waits for the time of a reservation. If ctx ends before, or the time is after the
// deadline because the call took long, it returns the permits in the background.
func (l *Limiter) awaitTime(ctx context.Context, e *entry, w *waiter) error {
	left := time.Until(w.At)
	if left > 0 && !w.deadline.IsZero() && w.At.After(w.deadline) {
		l.returnReservation(ctx, e, w)
		return &errDeadline{w.Permits, l.Name, left}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if time.Until(w.At) > 0 {
			l.returnReservation(ctx, e, w)
			return ctx.Err()
		}
	}
	e.mu.Lock()
	l.endReservations(e, 1)
	return nil
}

// endReservations counts reservations off, and unlocks the entry. Without any left, the queue
// reserves for its first waiter at once.
func (l *Limiter) endReservations(e *entry, n int) {
	if e.reserved -= n; e.reserved == 0 && e.queue != nil {
		e.queue.wake()
	}
	l.Engine.registry.unlockEntry(e)
}

// returnReservation returns the permits of a waiter whose caller leaves before their time.
func (l *Limiter) returnReservation(ctx context.Context, e *entry, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.returned = append(e.returned, w)
	if !e.returning {
		e.returning = true
		t := &transfer{done: make(chan struct{})}
		l.Engine.transfers.Store(t, nil)
		go func() {
			defer close(t.done)
			defer l.Engine.transfers.Delete(t)
			l.returnReservations(context.WithoutCancel(ctx), e)
		}()
	}
}

// returnReservations returns permits until no caller leaves. Callers that leave together share a call,
// and the newest reservation is the first in it: each returns only what no later one depends on.
// Until the call has ended, they count as reserved, so that no waiter reserves behind them.
func (l *Limiter) returnReservations(ctx context.Context, e *entry) {
	for {
		l.Engine.yields.collect(MaxRequests, func() int {
			e.mu.Lock()
			defer e.mu.Unlock()
			return len(e.returned)
		})
		e.mu.Lock()
		left := e.returned
		if e.returned = nil; len(left) == 0 {
			e.returning = false
			l.Engine.registry.unlockEntry(e)
			return
		}
		e.mu.Unlock()
		slices.SortFunc(left, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
		b := new(Batch)
		for _, w := range left {
			b.Lost = append(b.Lost, &w.Request)
		}
		if work := l.Protocol.Refund(b); work != nil {
			work(Unattended(ctx))
		}
		e.mu.Lock()
		e.reserved -= len(left)
		if e.queue != nil {
			e.queue.wake()
		}
		e.mu.Unlock()
	}
}
