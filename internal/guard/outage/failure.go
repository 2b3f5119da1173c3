package outage

// What the error of a call reveals about Redis, and the errors of calls that it has not decided.

import (
	"errors"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// callStatus is what the error of a call reveals about Redis. IsMistake depends on the order.
type callStatus int

const (
	callNotSent callStatus = iota
	callAnswered
	callErrorReply // by an error reply, which is an answer
	callFailed     // Redis may be down
)

// statusOf returns what the error of a call reveals about Redis.
func statusOf(err error) callStatus {
	var state *rratelimiter.StateError
	if err == nil || errors.Is(err, rratelimiter.ErrNotInitialized) || errors.As(err, &state) {
		return callAnswered
	}
	for _, neverSent := range []error{
		rratelimiter.ErrInvalidPermits, rratelimiter.ErrInvalidRate, rratelimiter.ErrInvalidName,
		rratelimiter.ErrInvalidOption, rratelimiter.ErrCrossSlot, rratelimiter.ErrNoClient,
		limit.ErrNotChargeable, errors.ErrUnsupported,
	} {
		if errors.Is(err, neverSent) {
			return callNotSent
		}
	}
	if redisx.Answers(err) {
		return callErrorReply
	}
	return callFailed
}

// IsMistake reports whether an error is a mistake of the program and no failure of Redis: invalid
// arguments, a limiter without a rate, or a key with other data.
func IsMistake(err error) bool { return err != nil && statusOf(err) < callErrorReply }

var (
	// ErrDown is the error of requests that are decided without a call to Redis, since it is down.
	ErrDown = errors.New("rratelimiter: Redis is down: the call was not sent")
	// ErrTooManyWaiting is the error of requests that are denied at once, since the bound of waiters
	// is reached.
	ErrTooManyWaiting = errors.New("rratelimiter: too many requests are waiting for permits: raise MaxWaiting")
)
