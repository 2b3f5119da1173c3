package outage

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

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
