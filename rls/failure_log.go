package rls

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// failureLog limits the log lines about requests that fail while Redis answers others. Causes are a
// key of another type, or a node of a cluster that is down.
type failureLog struct {
	down atomic.Bool               // Redis is down, which has a log line of its own
	last atomic.Pointer[time.Time] // the time of the last line
}

// logInterval is the time between equal log lines.
const logInterval = 30 * time.Second

// due reports whether a log line is due. It returns true to one caller only.
func (l *failureLog) due() bool {
	if l.down.Load() {
		return false
	}
	now, last := time.Now(), l.last.Load()
	return (last == nil || now.Sub(*last) >= logInterval) && l.last.CompareAndSwap(last, &now)
}

// failed returns the error of a request that Redis did not decide.
func (s *Server) failed(err error) error {
	s.metrics.redisErrors.Inc()
	if s.failureLog.due() {
		s.config.Log.Error("rls: requests end with an error, while Redis answers others", "error", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return status.Errorf(codes.Unavailable, "rls: Redis did not answer within %v", s.config.Deadline)
	}
	return status.Errorf(codes.Unavailable, "rls: cannot decide: %v", err)
}
