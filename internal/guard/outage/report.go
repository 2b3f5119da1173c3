package outage

// Reports of outages: to the callback, one at a time, and to a log.

import (
	"errors"
	"log/slog"
	"sync"
	"time"
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

// FailureLog logs the outages of nodes of Redis, and requests that cannot be decided for another
// cause, such as a key of another type.
type FailureLog struct {
	Log                     *slog.Logger
	Up, Moved, Down, Failed string // the lines

	mu   sync.Mutex
	down int       // nodes
	last time.Time // of a line Failed
}

// failureInterval is the time between two lines about requests.
const failureInterval = 30 * time.Second

// RedisChanged logs the beginning or the end of an outage.
func (l *FailureLog) RedisChanged(node string, up bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var moved *movedError
	switch {
	case errors.As(err, &moved):
		l.down--
		l.Log.Info(l.Moved, "node", node, "to", moved.to.address())
		return
	case up:
		l.down--
		l.Log.Info(l.Up, "node", node)
		return
	}
	l.down++
	var failed *callError
	if errors.As(err, &failed) {
		err = failed.err // the limiter is that of any customer
	}
	l.Log.Error(l.Down, "node", node, "error", err)
}

// RequestFailed logs a request that cannot be decided, unless an outage is the cause.
func (l *FailureLog) RequestFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down > 0 && statusOf(err) == callFailed {
		return
	}
	if now := time.Now(); now.Sub(l.last) >= failureInterval {
		l.last = now
		l.Log.Error(l.Failed, "error", err)
	}
}
