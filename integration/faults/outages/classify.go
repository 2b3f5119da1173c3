package outages

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// The kinds of errors of the Go callers, beside the words with which Redis begins its own: OOM,
// TRYAGAIN and so on.
const (
	deadline       = "deadline"        // the caller's context ended
	notInitialized = "not initialized" // the limiter has lost its rate
	refused        = "refused"         // no listener: the server is down
	cut            = "cut"             // the connection ended under the call
	dead           = "no answer"       // the connection was given up, since nothing came for long
	noNode         = "no node"         // no node that is known serves the slot
)

// redisWords are the errors by which a Redis that is in trouble, or on the move, refuses a command.
var redisWords = []string{"CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "OOM", "READONLY", "TRYAGAIN", "UNBLOCKED"}

// classifyGo names the kind of an error of the load's limiter.
func classifyGo(err error) string { return Kind(err, Name) }

// Kind names the kind of an error of this library, "" for one that a caller could not make sense
// of. Such is also one that does not say which limiter it is about, unless it is the caller's own
// context.
func Kind(err error, name string) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return deadline
	}
	if !strings.Contains(err.Error(), name) {
		return ""
	}
	var redisErr *rueidis.RedisError
	var netErr net.Error
	switch {
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		return notInitialized
	case errors.As(err, &redisErr):
		text := redisErr.Error()
		// Before Redis 7.0 the error of a command stands behind that of the script which ran it.
		if _, ofCommand, within := strings.Cut(text, ": -"); within {
			text = ofCommand
		}
		word, _, _ := strings.Cut(text, " ")
		if slices.Contains(redisWords, word) {
			return word
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err,
		net.ErrClosed),
		errors.Is(err, rueidis.ErrClosing):
		return cut
	case errors.Is(err, rueidis.ErrNoSlot):
		return noNode
	case errors.As(err, &netErr) && netErr.Timeout():
		return dead
	}
	return ""
}

// classifyJava names the kind of an exception of Redisson by its class, and by the word of Redis
// where there is one.
func classifyJava(err error) string {
	text := strings.TrimPrefix(err.Error(), ": ")
	if strings.Contains(text, "RateLimiter is not initialized") {
		return notInitialized
	}
	for _, word := range redisWords {
		if strings.Contains(text, word) {
			return word
		}
	}
	class, _, _ := strings.Cut(text, ":")
	return class[strings.LastIndexByte(class, '.')+1:]
}
