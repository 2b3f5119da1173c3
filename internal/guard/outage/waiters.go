package outage

// The requests that wait in queues of limiters. A queue does not report that Redis hangs, so a timer checks the nodes.

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// waiters are the requests that wait, by their nodes. While there are any, a timer checks these nodes, which takes as
// long for many requests as for one.
type waiters struct {
	mu sync.Mutex
	on map[*breaker]*nodeWaits // nil if the timer does not run
}

// nodeWaits are the requests that wait for a node. slots is the version of the slots by which they do.
type nodeWaits struct {
	all   map[*waiter]bool
	slots uint64
}

type waiter struct {
	target
	since time.Time
	end   context.CancelCauseFunc
	on    *breaker // the lock of the waiters guards it
}

// whileUp returns a context that ends with the cause ErrDown when the node of a limiter is down. The node of a limiter
// may change meanwhile. If a node answers no call, a probe finds out whether it hangs. Then the context ends at most two
// and two thirds deadlines after its silence began: one of silence, one of the probe, and two pauses of a third each.
// stop ends the context.
func (n *nodes) whileUp(ctx context.Context, l limit.Joinable) (up context.Context, stop func()) {
	up, end := context.WithCancelCause(ctx)
	w, on, list := &waiter{target: target{ctx, l}, since: time.Now(), end: end}, n.breakerOf(l), &n.waiters
	list.mu.Lock()
	defer list.mu.Unlock()
	if list.on == nil {
		list.on = make(map[*breaker]*nodeWaits)
		time.AfterFunc(n.Deadline()/3, n.checkWaiters)
	}
	list.addLocked(w, on)
	return up, func() {
		list.mu.Lock()
		list.removeLocked(w)
		list.mu.Unlock()
		end(nil)
	}
}

// addLocked adds a waiter to those of a node. The lock is held.
func (l *waiters) addLocked(w *waiter, on *breaker) {
	if l.on[on] == nil {
		l.on[on] = &nodeWaits{make(map[*waiter]bool), on.node.slots()}
	}
	l.on[on].all[w], w.on = true, on
}

// removeLocked removes a waiter, and reports whether it was there. The lock is held.
func (l *waiters) removeLocked(w *waiter) bool {
	of := l.on[w.on]
	if of == nil || !of.all[w] {
		return false
	}
	if delete(of.all, w); len(of.all) == 0 {
		delete(l.on, w.on)
	}
	return true
}

// end ends the waits for a node that is down, of those that began before a time.
func (l *waiters) end(on *breaker, before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.on[on]; of != nil {
		for w := range of.all {
			if w.since.Before(before) {
				l.removeLocked(w)
				w.end(ErrDown)
			}
		}
	}
}

// anyOf returns a waiter of a node, nil if there is none.
func (l *waiters) anyOf(on *breaker) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.on[on]; of != nil {
		for w := range of.all {
			return w
		}
	}
	return nil
}

// checkWaiters checks the nodes of all waiters, and sets the timer again while there are any. It ends the waits for a
// node that is down, and has been since they began: a probe may be about to end the outage. A node that is silent is
// probed.
func (n *nodes) checkWaiters() {
	n.moveWaiters()
	list, pause := &n.waiters, n.Deadline()/3
	list.mu.Lock()
	nodes := slices.Collect(maps.Keys(list.on))
	if len(nodes) == 0 {
		list.on = nil
	}
	list.mu.Unlock()
	if len(nodes) == 0 {
		return
	}
	for _, b := range nodes {
		if b.isDown() {
			list.end(b, time.Now().Add(-pause))
		}
		if w := list.anyOf(b); w != nil {
			b.verify(w.ctx, w.limiter)
		}
	}
	time.AfterFunc(pause, n.checkWaiters)
}

// moveWaiters moves the waiters whose calls go to another node, once the slots have changed.
func (n *nodes) moveWaiters() {
	list, moved := &n.waiters, []*waiter(nil)
	list.mu.Lock()
	for b, of := range list.on {
		if slots := b.node.slots(); slots != of.slots {
			of.slots, moved = slots, slices.AppendSeq(moved, maps.Keys(of.all))
		}
	}
	list.mu.Unlock()
	for _, w := range moved {
		on := n.breakerOf(w.limiter) // by methods of the user's, so without the lock
		list.mu.Lock()
		if on != w.on && list.removeLocked(w) {
			list.addLocked(w, on)
		}
		list.mu.Unlock()
	}
}
