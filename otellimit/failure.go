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

// failure is a value of error.type. Error texts contain names and addresses and are not reported.
type failure string

const (
	canceled         failure = "canceled"
	deadlineExceeded failure = "deadline_exceeded"
	notInitialized   failure = "not_initialized"
	invalidRequest   failure = "invalid_request"
	state            failure = "state"
	redis            failure = "redis"
	connection       failure = "connection"
	down             failure = "redis_down"
	other            failure = "_OTHER" // OpenTelemetry's value for all without one of their own
)

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
	{rratelimiter.ErrPermitsExceedRate, invalidRequest},
	{rratelimiter.ErrInvalidPermits, invalidRequest},
	{rratelimiter.ErrInvalidRate, invalidRequest},
	{rratelimiter.ErrInvalidName, invalidRequest},
	{rratelimiter.ErrInvalidOption, invalidRequest},
	{rratelimiter.ErrCrossSlot, invalidRequest},
	{rratelimiter.ErrNoClient, invalidRequest},
	{limit.ErrInvalidRequest, invalidRequest}, // also grpclimit's
	{rueidis.ErrClosing, connection},
	{net.ErrClosed, connection},
	{io.EOF, connection},
	{io.ErrUnexpectedEOF, connection},
}

func classify(err error) failure {
	if err == nil {
		return ""
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
