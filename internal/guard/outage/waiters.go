package outage

// The requests that wait in queues of limiters. The waits of a limiter do not report that Redis hangs.

import (
	"context"
	"sync"
	"time"
)

// waiters are the requests that wait. While there are any, a timer checks their nodes.
type waiters struct {
	mu  sync.Mutex
	all map[*waiter]bool // nil if the timer does not run
}

type waiter struct {
	target
	since time.Time
	end   context.CancelCauseFunc

	on    *breaker // of its node by the slots of a version; the lock of the waiters guards both
	slots uint64
}

// whileUp returns a context that ends with the cause ErrDown when the node of a limiter is down, which may
// change meanwhile. If no call is answered meanwhile, a probe finds out whether Redis hangs. The end comes after a
// deadline of silence, one of the probe, and two pauses of a third each. stop ends the context.
func (g *Guard) whileUp(ctx context.Context, l Limiter) (up context.Context, stop func()) {
	up, end := context.WithCancelCause(ctx)
	on, list := g.breakerOf(l), &g.waiters
	w := &waiter{target: target{ctx, l}, since: time.Now(), end: end, on: on, slots: on.node.slots()}
	list.mu.Lock()
	defer list.mu.Unlock()
	if list.all == nil {
		list.all = make(map[*waiter]bool)
		time.AfterFunc(g.Deadline()/3, g.checkWaiters)
	}
	list.all[w] = true
	return up, func() {
		list.mu.Lock()
		delete(list.all, w)
		list.mu.Unlock()
		end(nil)
	}
}

// end ends the waits for a node that is down, of those that began before a time.
func (l *waiters) end(on *breaker, before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.all {
		if w.on == on && w.since.Before(before) {
			delete(l.all, w)
			w.end(ErrDown)
		}
	}
}

// checkWaiters checks the nodes of all waiters, and sets the timer again while there are any. It ends the waits for a
// node that is down, and has been since they began: a probe may be about to end the outage. A node that is silent is
// probed.
func (g *Guard) checkWaiters() {
	list, pause := &g.waiters, g.Deadline()/3
	var moved []*waiter                 // the slots have changed since their node was looked up
	nodes := make(map[*breaker]*waiter) // one of those that wait for each
	list.mu.Lock()
	for w := range list.all {
		if w.slots != w.on.node.slots() {
			moved = append(moved, w)
		} else if nodes[w.on] == nil {
			nodes[w.on] = w
		}
	}
	ended := len(list.all) == 0
	if ended {
		list.all = nil
	}
	list.mu.Unlock()
	if ended {
		return
	}
	for _, w := range moved {
		slots := w.on.node.slots()
		on := g.breakerOf(w.limiter) // by methods of the user's, so without the lock
		list.mu.Lock()
		w.on, w.slots = on, slots
		list.mu.Unlock()
		nodes[on] = w
	}
	for b, w := range nodes {
		if b.isDown() {
			list.end(b, time.Now().Add(-pause))
		}
		b.verify(w.ctx, w.limiter)
	}
	time.AfterFunc(pause, g.checkWaiters)
}
