package outage

// The requests that wait in queues of limiters. The waits of a limiter do not report that Redis hangs.

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// waiters guards the requests that wait, which the breakers of their nodes have. While there are any, a timer checks
// these nodes.
type waiters struct {
	mu      sync.Mutex
	count   int
	checked bool // the timer runs
}

type waiter struct {
	target
	on    *breaker // the lock of the waiters guards it
	since time.Time
	end   context.CancelCauseFunc
}

// whileUp returns a context that ends with the cause ErrDown when the node of a limiter is down, which may
// change meanwhile. If no call is answered meanwhile, a probe finds out whether Redis hangs. The end comes after a
// deadline of silence, one of the probe, and two pauses of a third each. stop ends the context.
func (g *Guard) whileUp(ctx context.Context, l Limiter) (up context.Context, stop func()) {
	up, end := context.WithCancelCause(ctx)
	w, on, list := &waiter{target: target{ctx, l}, since: time.Now(), end: end}, g.breakerOf(l), &g.waiters
	list.mu.Lock()
	defer list.mu.Unlock()
	list.addLocked(w, on)
	if !list.checked {
		list.checked = true
		time.AfterFunc(g.Deadline()/3, g.checkWaiters)
	}
	return up, func() {
		list.mu.Lock()
		list.removeLocked(w)
		list.mu.Unlock()
		end(nil)
	}
}

// addLocked adds a waiter to those of a node. The lock is held.
func (l *waiters) addLocked(w *waiter, on *breaker) {
	if on.waits == nil {
		on.waits, on.slots = make(map[*waiter]bool), on.node.slots()
	}
	on.waits[w], w.on = true, on
	l.count++
}

// removeLocked removes a waiter, and reports whether it was there. The lock is held.
func (l *waiters) removeLocked(w *waiter) bool {
	if !w.on.waits[w] {
		return false
	}
	if delete(w.on.waits, w); len(w.on.waits) == 0 {
		w.on.waits = nil
	}
	l.count--
	return true
}

// end ends the waits for a node that is down, of those that began before a time.
func (l *waiters) end(on *breaker, before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range on.waits {
		if w.since.Before(before) {
			l.removeLocked(w)
			w.end(ErrDown)
		}
	}
}

// checkWaiters checks the nodes of all waiters, and sets the timer again while there are any.
func (g *Guard) checkWaiters() {
	list, pause := &g.waiters, g.Deadline()/3
	list.mu.Lock()
	again := list.count > 0
	list.checked = again
	list.mu.Unlock()
	if !again {
		return
	}
	for _, b := range g.breakers.Range {
		g.checkWaitersOf(b.(*breaker), pause) //nolint:errcheck,forcetypeassert // nothing else is there
	}
	time.AfterFunc(pause, g.checkWaiters)
}

// checkWaitersOf ends the waits for a node that is down, and has been since they began: a probe may be about to end
// the outage. A node that is silent is probed.
func (g *Guard) checkWaitersOf(b *breaker, pause time.Duration) {
	g.moveWaiters(b)
	if b.isDown() {
		g.waiters.end(b, time.Now().Add(-pause))
	}
	if w := g.waiters.anyOf(b); w != nil {
		b.verify(w.ctx, w.limiter)
	}
}

// moveWaiters moves the waiters of a node whose calls go to another one, once the slots have changed.
func (g *Guard) moveWaiters(b *breaker) {
	list, slots := &g.waiters, b.node.slots()
	var all []*waiter
	list.mu.Lock()
	if b.waits != nil && b.slots != slots {
		all, b.slots = slices.Collect(maps.Keys(b.waits)), slots
	}
	list.mu.Unlock()
	for _, w := range all {
		on := g.breakerOf(w.limiter) // by methods of the user's, so without the lock
		if on == b {
			continue
		}
		list.mu.Lock()
		if list.removeLocked(w) {
			list.addLocked(w, on)
		}
		list.mu.Unlock()
	}
}

// anyOf returns a waiter of a node, nil if there is none.
func (l *waiters) anyOf(b *breaker) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range b.waits {
		return w
	}
	return nil
}
