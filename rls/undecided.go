package rls

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// undecided tells the log of requests that nobody could decide, while Redis answers others: by a key that holds something else, by a node of a
// cluster that is down.
type undecided struct {
	away atomic.Bool               // Redis answers nobody, which the log was told by itself
	told atomic.Pointer[time.Time] // when the log was told last
}

// remind is how long it is from one line of the log to the next that says the same.
const remind = 30 * time.Second

// due reports whether it is time for a line, once.
func (u *undecided) due() bool {
	if u.away.Load() {
		return false
	}
	now, last := time.Now(), u.told.Load()
	return (last == nil || now.Sub(*last) >= remind) && u.told.CompareAndSwap(last, &now)
}

// failed returns the error of a request that could not be decided.
func (s *Server) failed(err error) error {
	s.metrics.redisErrors.Add(1)
	if s.undecided.due() {
		s.config.Log.Error("rls: requests end with an error, while Redis answers others", "error", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return status.Errorf(codes.Unavailable, "rls: Redis did not answer within %v", s.config.Deadline)
	}
	return status.Errorf(codes.Unavailable, "rls: cannot decide: %v", err)
}
