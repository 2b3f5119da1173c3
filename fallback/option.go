package fallback

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Option is a setting of [New].
type Option func(*settings)

type settings struct {
	guard.Settings
	policies []limit.Policy
}

// DefaultDeadline is the time that Redis has to answer without [Deadline], as in package httplimit.
const DefaultDeadline = 500 * time.Millisecond

// FailureMode decides while Redis fails or does not answer: [Closed], [Open] or [Local]. The zero value is
// Closed.
type FailureMode float64

// The modes besides Local.
const (
	Closed = FailureMode(guard.Closed) // refuses permits: the error is [ErrClosed]
	Open   = FailureMode(guard.Open)   // grants permits
)

// Local lets this process grant a share of each limit while Redis is away: a tenth if ten processes
// share the limit. A window never holds more than the share of its permits in any interval, and half of
// it can be granted at once. A bucket has the share of its capacity and of its refill. What costs more
// than the share ever holds is Closed. What was taken in Redis does not count here, and the other way
// round. [github.com/rratelimiter/rratelimiter/httplimit.Local] has the details.
//
// Local panics if the share is not above 0 and at most 1.
func Local(share float64) FailureMode { return FailureMode(guard.Local("fallback", share)) }

// OnFailure sets the failure mode.
func OnFailure(mode FailureMode) Option {
	return common(guard.OnFailure("fallback", guard.Mode(mode)))
}

// Deadline sets the time that Redis has for one answer, [DefaultDeadline] by default. The wait for
// permits is not part of it: while callers wait, Redis is asked once in each Deadline whether it is
// there.
func Deadline(d time.Duration) Option { return common(guard.Deadline("fallback", d)) }

// Policies describes the limiters for [Local]. A *[limit.Limiter] needs none. The rate of a
// *[github.com/rratelimiter/rratelimiter.Limiter] is a [limit.SlidingLog]; with an InitialRate it
// needs none either.
//
// Policies panics if a policy is invalid.
func Policies(policies ...limit.Policy) Option {
	known := guard.MustDescribe("fallback: Policies", policies...).Policies
	return func(s *settings) { s.policies = known }
}

// OnRedisChange sets a callback for each outage of a node of Redis: up is false with the error that began
// it, and true at its end. node is the address of the node, empty if it is unknown. Calls come in order,
// one at a time.
func OnRedisChange(changed func(node string, up bool, err error)) Option {
	return common(func(s *guard.Settings) { s.Changed = changed })
}

func common(change guard.Change) Option { return func(s *settings) { change(&s.Settings) } }
