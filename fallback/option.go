package fallback

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Option is a setting of [New].
type Option func(*settings)

type settings struct{ gate.Settings }

// OnFailure sets the failure mode.
func OnFailure(mode limit.FailureMode) Option {
	return common(gate.OnFailure("fallback", mode))
}

// Deadline sets the time that Redis has for one answer, 500 ms by default. The wait for
// permits is not part of it: while callers wait, Redis is asked once in each Deadline whether it is
// there.
func Deadline(d time.Duration) Option { return common(gate.Deadline("fallback", d)) }

// OnRedisChange sets a callback for each outage of a node of Redis. up is false with the error that began
// it, and true at its end. err is then nil if the node answers, and reports if its slots have moved to
// another node instead. node is the address of the node, empty if it is unknown. Calls come in
// order, one at a time.
func OnRedisChange(changed func(node string, up bool, err error)) Option {
	return common(func(s *gate.Settings) { s.Changed = changed })
}

func common(change gate.Setting) Option { return func(s *settings) { change(&s.Settings) } }
