// Package outages runs a load of Go and Java callers on one limiter while Redis fails. Each test
// has one fault.
//
// A test starts a Load, causes and repairs a fault, and stops the Load. The Outcome has the results
// of the callers and asserts the promises. Table prints outcomes, one row for each fault.
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

// The kinds of errors of the Go callers, besides the first words of errors of Redis, as OOM.
const (
	cancelled      = "cancelled"       // the caller cancelled
	deadline       = "deadline"        // the caller's deadline passed
	notInitialized = "not initialized" // the limiter has no rate
	refused        = "refused"         // no listener: the server is down
	cut            = "cut"             // the connection ended during the call
	dead           = "no answer"       // rueidis closed the connection, since no reply came
	noNode         = "no node"         // no known node serves the slot
)

// redisWords are the first words of the errors of a Redis that fails or changes roles.
var redisWords = []string{"CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "OOM", "READONLY", "TRYAGAIN", "UNBLOCKED"}

// connectionErrors are the errors of a connection that ended.
var connectionErrors = []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	rueidis.ErrClosing}

// Kind returns the kind of an error of this library, "" for an unknown one. An error that does not
// name its limiter is unknown, unless the caller's context ended.
func Kind(err error, name string) string {
	if errors.Is(err, context.Canceled) {
		return cancelled
	}
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
		// Before Redis 7.0 the error of a command follows that of its script.
		if _, ofCommand, within := strings.Cut(text, ": -"); within {
			text = ofCommand
		}
		word, _, _ := strings.Cut(text, " ")
		if slices.Contains(redisWords, word) {
			return word
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case slices.ContainsFunc(connectionErrors, func(target error) bool { return errors.Is(err, target) }):
		return cut
	case errors.Is(err, rueidis.ErrNoSlot):
		return noNode
	case errors.As(err, &netErr) && netErr.Timeout():
		return dead
	}
	return ""
}
