package guard

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Settings are the options that the middleware of HTTP and the interceptors of gRPC have in common.
type Settings struct {
	Wait         time.Duration // in place of a denial; 0 for none, or for outgoing calls Forever
	AtOnce       bool          // an outgoing call does not wait either
	Shadow       bool          // every request passes
	Spread       Spread
	Mode         Mode
	InvalidFails bool // the mode decides invalid requests too
	Deadline     time.Duration
	MaxWaiting   int // 0 for the default
	Changed      func(up bool, err error)
	Sharing      Sharing
}

// NewSettings returns the defaults.
func NewSettings(deadline time.Duration) Settings {
	return Settings{Deadline: deadline, Sharing: NewShared, Spread: NewSpread()}
}

// Gate decides the requests of one middleware or interceptor by its settings.
type Gate struct {
	*Guard
	settings *Settings
	outgoing bool
	Pauses   Pauses // of outgoing calls
}

// Incoming returns the gate of a server, at which maxWaiting requests may wait by default.
func (s *Settings) Incoming(maxWaiting int) *Gate {
	return &Gate{Guard: s.guard(maxWaiting), settings: s}
}

// Outgoing returns the gate of a client. It has no bound of waiters by default.
func (s *Settings) Outgoing() *Gate {
	return &Gate{Guard: s.guard(0), settings: s, outgoing: true}
}

func (s *Settings) guard(maxWaiting int) *Guard {
	return s.Sharing(s.Deadline, s.Changed).Guard(s.Mode, cmp.Or(s.MaxWaiting, maxWaiting))
}

// Decide decides a request, or with err one that has no limiter or no valid cost.
func (g *Gate) Decide(ctx context.Context, q Request, err error) Answer {
	s := g.settings
	switch {
	case err != nil && !g.outgoing && !s.InvalidFails && errors.Is(err, ErrInvalidRequest):
		return Answer{Result: Invalid, Err: err} // in every mode: a client gains nothing by leaving something out
	case err != nil:
		return g.Fail(err)
	case s.Shadow:
		return g.Ask(ctx, q)
	}
	q.Wait = s.Wait
	if g.outgoing {
		q.Pauses = &g.Pauses
		if q.Wait == 0 && !s.AtOnce {
			q.Wait = Forever
		}
	}
	return g.Ask(ctx, q)
}
