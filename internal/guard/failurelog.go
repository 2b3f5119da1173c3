package guard

import (
	"log/slog"
	"sync"
	"time"
)

// FailureLog logs the outages of Redis, and requests that cannot be decided while Redis answers
// others. Causes are a key of another type, or a node of a cluster that is down.
type FailureLog struct {
	Log              *slog.Logger
	Up, Down, Failed string // the lines

	mu   sync.Mutex
	down bool
	last time.Time // of a line Failed
}

// failureInterval is the time between two lines about requests.
const failureInterval = 30 * time.Second

// RedisChanged logs the begin or the end of an outage.
func (l *FailureLog) RedisChanged(up bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down = !up; up {
		l.Log.Info(l.Up)
	} else {
		l.Log.Error(l.Down, "error", err)
	}
}

// RequestFailed logs a request that cannot be decided, unless an outage is the cause.
func (l *FailureLog) RequestFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !l.down && now.Sub(l.last) >= failureInterval {
		l.last = now
		l.Log.Error(l.Failed, "error", err)
	}
}
