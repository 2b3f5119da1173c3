package outage

// Reports of outages: to the callback, one at a time, and to a log.

import (
	"sync"
)

// reports calls a callback for each change of the state of a node, one at a time and in order.
type reports struct {
	changed func(node string, up bool, err error) // may be nil

	mu      sync.Mutex
	changes []transition
	running bool
}

type transition struct {
	node string
	up   bool
	err  error
}

// add queues a change.
func (r *reports) add(c transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != nil {
		r.changes = append(r.changes, c)
	}
}

// run calls the callback for the queued changes, even if it panics, unless another goroutine does. No lock is
// held during the callback.
func (r *reports) run() {
	r.mu.Lock()
	if r.running || len(r.changes) == 0 {
		r.mu.Unlock()
		return
	}
	next := r.changes[0]
	r.changes, r.running = r.changes[1:], true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
		r.run()
	}()
	r.changed(next.node, next.up, next.err)
}
