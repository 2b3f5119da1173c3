package outage

// What the error of a call reveals about Redis, and the errors of calls that it has not decided.

import (
	"errors"
	"fmt"
	"strings"

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

// callError is the error of a call that Redis has not decided. It is ErrDown if the call was not sent.
type callError struct {
	limiter string
	node    node
	err     error
}

func (e *callError) Error() string {
	if errors.Is(e.err, ErrDown) {
		return fmt.Sprintf("rratelimiter: limiter %q: %s is down: the call was not sent", e.limiter, e.node)
	}
	reason := e.err.Error()
	for _, of := range []string{"limit", "rratelimiter"} { // the limiter is named once
		reason = strings.ReplaceAll(reason, fmt.Sprintf("%s: limiter %q: ", of, e.limiter), "")
	}
	return fmt.Sprintf("rratelimiter: limiter %q: %s: %s", e.limiter, e.node, reason)
}

func (e *callError) Unwrap() error { return e.err }

// movedError is why an outage has ended although its node has not answered.
type movedError struct{ from, to node }

func (e *movedError) Error() string {
	return fmt.Sprintf("rratelimiter: %s has not answered: its calls go to %s now", e.from, e.to)
}

var (
	// ErrDown is the error of requests that are decided without a call to Redis, since it is down.
	ErrDown = errors.New("rratelimiter: Redis is down: the call was not sent")
	// ErrTooManyWaiting is the error of requests that are denied at once, since the bound of waiters
	// is reached.
	ErrTooManyWaiting = errors.New("rratelimiter: too many requests are waiting for permits: raise MaxWaiting")
)
