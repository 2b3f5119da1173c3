package outage

// The requests that wait in queues of limiters. The waits of a limiter do not report that Redis hangs.

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// waiters are the requests that wait in queues of limiters, by the breaker of their node. While there are any, a
// timer checks their nodes.
type waiters struct {
	mu      sync.Mutex
	byNode  map[*breaker]*nodeWaiters
	checked bool // the timer runs
}

// nodeWaiters are those of a node, as it was by a version of the slots.
type nodeWaiters struct {
	all   map[*waiter]bool
	slots uint64
}

type waiter struct {
	target
	on    *breaker // the list's lock guards it
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
		list.remove(w)
		end(nil)
	}
}

// addLocked adds a waiter to those of a node. The lock is held.
func (l *waiters) addLocked(w *waiter, on *breaker) {
	if l.byNode == nil {
		l.byNode = make(map[*breaker]*nodeWaiters)
	}
	of := l.byNode[on]
	if of == nil {
		of = &nodeWaiters{make(map[*waiter]bool), on.node.slots()}
		l.byNode[on] = of
	}
	of.all[w], w.on = true, on
}

func (l *waiters) remove(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(w)
}

// removeLocked removes a waiter, and reports whether it was there. The lock is held.
func (l *waiters) removeLocked(w *waiter) bool {
	of := l.byNode[w.on]
	if of == nil || !of.all[w] {
		return false
	}
	if delete(of.all, w); len(of.all) == 0 {
		delete(l.byNode, w.on)
	}
	return true
}

// end ends the waits for a node that is down, of those that began before a time.
func (l *waiters) end(on *breaker, before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.byNode[on]; of != nil {
		for w := range of.all {
			if w.since.Before(before) {
				l.removeLocked(w)
				w.end(ErrDown)
			}
		}
	}
}

// checkWaiters checks the nodes of all waiters, and sets the timer again while there are any.
func (g *Guard) checkWaiters() {
	list, pause := &g.waiters, g.Deadline()/3
	list.mu.Lock()
	nodes := slices.Collect(maps.Keys(list.byNode))
	list.checked = len(nodes) > 0
	list.mu.Unlock()
	for _, b := range nodes {
		g.checkWaitersOf(b, pause)
	}
	if len(nodes) > 0 {
		time.AfterFunc(pause, g.checkWaiters)
	}
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
	if of := list.byNode[b]; of != nil && of.slots != slots {
		all, of.slots = slices.Collect(maps.Keys(of.all)), slots
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
	if of := l.byNode[b]; of != nil {
		for w := range of.all {
			return w
		}
	}
	return nil
}
