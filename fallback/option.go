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

// OnFailure sets the failure mode.
func OnFailure(mode limit.FailureMode) Option {
	return common(guard.OnFailure("fallback", mode))
}

// Deadline sets the time that Redis has for one answer, 500 ms by default. The wait for
// permits is not part of it: while callers wait, Redis is asked once in each Deadline whether it is
// there.
func Deadline(d time.Duration) Option { return common(guard.Deadline("fallback", d)) }

// Policies describes the limiters for [limit.Local]. A *[limit.Limiter] needs none. The rate of a
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
