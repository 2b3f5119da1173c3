package guard

import "sync"

// reports calls a callback for each change of the state of a node, one at a time and in order.
type reports struct {
	changed func(node string, up bool, err error) // may be nil

	mu      sync.Mutex
	changes []change
	running bool
}

type change struct {
	node string
	up   bool
	err  error
}

// add queues a change.
func (r *reports) add(c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != nil {
		r.changes = append(r.changes, c)
	}
}

// run reports the queued changes, unless another goroutine does.
func (r *reports) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runLocked()
}

// runLocked calls the callback for all changes, even if it panics. The lock is held, but not during
// the callback.
func (r *reports) runLocked() {
	if r.running || len(r.changes) == 0 {
		return
	}
	next := r.changes[0]
	r.changes, r.running = r.changes[1:], true
	defer func() {
		r.mu.Lock()
		r.running = false
		r.runLocked()
	}()
	r.mu.Unlock()
	r.changed(next.node, next.up, next.err)
}
