package otellimit

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// failure is an index of failures, the values of error.type. Error texts contain names and addresses
// and are not reported.
type failure int

const (
	noFailure failure = iota
	canceled
	deadlineExceeded
	notInitialized
	permitsExceedRate
	invalidArgument
	invalidRequest
	state
	redis
	connection
	down
	other
	failureCount
)

var failures = [failureCount]string{
	canceled:          "canceled",
	deadlineExceeded:  "deadline_exceeded",
	notInitialized:    "not_initialized",
	permitsExceedRate: "permits_exceed_rate",
	invalidArgument:   "invalid_argument",
	invalidRequest:    "invalid_request",
	state:             "state",
	redis:             "redis",
	connection:        "connection",
	down:              "redis_down",
	other:             otherValue,
}

// sentinels maps errors by value; the first match counts.
var sentinels = []struct {
	err error
	is  failure
}{
	{guard.ErrDown, down},
	{context.Canceled, canceled},
	{context.DeadlineExceeded, deadlineExceeded},
	{os.ErrDeadlineExceeded, deadlineExceeded},
	{rratelimiter.ErrNotInitialized, notInitialized},
	{rratelimiter.ErrPermitsExceedRate, permitsExceedRate},
	{rratelimiter.ErrInvalidPermits, invalidArgument},
	{rratelimiter.ErrInvalidRate, invalidArgument},
	{rratelimiter.ErrInvalidName, invalidArgument},
	{rratelimiter.ErrInvalidOption, invalidArgument},
	{rratelimiter.ErrCrossSlot, invalidArgument},
	{rratelimiter.ErrNoClient, invalidArgument},
	{limit.ErrInvalidRequest, invalidRequest}, // also grpclimit's
	{rueidis.ErrClosing, connection},
	{net.ErrClosed, connection},
	{io.EOF, connection},
	{io.ErrUnexpectedEOF, connection},
	{io.ErrClosedPipe, connection},
}

func classify(err error) failure {
	if err == nil {
		return noFailure
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.is
		}
	}
	var corrupt *rratelimiter.StateError
	if errors.As(err, &corrupt) {
		return state
	}
	var reply *rueidis.RedisError
	if errors.As(err, &reply) {
		return redis
	}
	var network net.Error
	if errors.As(err, &network) {
		if network.Timeout() {
			return deadlineExceeded
		}
		return connection
	}
	return other
}
