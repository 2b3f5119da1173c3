package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Settings are the options that the middleware of HTTP and the interceptors of gRPC have in common.
type Settings struct {
	Wait         time.Duration // in place of a denial; 0 for none, or for outgoing calls Forever
	Shadow       bool          // every request passes
	Spread       Spread
	Mode         limit.FailureMode
	LimitsHealth bool // calls of gRPC's health and reflection services are limited too
	Deadline     time.Duration
	MaxWaiting   int // 0 for the default
	Changed      Changed
	Sharing      Sharing
}

// The defaults. The deadline is long enough for a healthy Redis on a busy host.
const (
	defaultDeadline   = 500 * time.Millisecond
	defaultMaxWaiting = 1000 // of a server
)

// NewSettings returns the defaults.
func NewSettings() Settings {
	return Settings{Deadline: defaultDeadline, Sharing: NewShared, Spread: Spread{Random: rand.Int64N}}
}

// Gate decides the requests of one middleware or interceptor by its settings.
type Gate struct {
	*Guard
	settings *Settings
	outgoing bool
	Pauses   Pauses // of outgoing calls
}

// Incoming returns the gate of a server.
func (s *Settings) Incoming() *Gate {
	return &Gate{Guard: s.guard(defaultMaxWaiting), settings: s}
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
	case err != nil && !g.outgoing && errors.Is(err, limit.ErrInvalidRequest):
		return Answer{Result: limit.Invalid, Err: err} // in every mode: a client gains nothing by leaving something out
	case err != nil:
		return g.Fail(err)
	case s.Shadow:
		return g.Ask(ctx, q)
	}
	q.Wait = s.Wait
	if g.outgoing {
		q.Pauses = &g.Pauses
		if q.Wait == 0 {
			q.Wait = Forever
		}
		return g.Ask(ctx, q)
	}
	return overLimit(ctx, time.Now(), g.Ask(ctx, q))
}

// overLimit returns the denial of a request that was over its limit at first, and whose context ended
// while it waited, unless its client has gone.
func overLimit(ctx context.Context, asked time.Time, a Answer) Answer {
	if a.Result != limit.Canceled || a.Decision.RetryAfter <= 0 || errors.Is(ctx.Err(), context.Canceled) {
		return a
	}
	a.Result = limit.Rejected
	a.Decision.RetryAfter = max(1, a.Decision.RetryAfter-time.Since(asked))
	return a
}

// The functions below are the options that packages have in common. Each checks its argument, and
// panics with a text that begins with the name of the package.

// Change is an option: it changes the settings.
type Change = func(*Settings)

// Wait is the option of the longest wait.
func Wait(pkg string, d time.Duration) Change {
	if d <= 0 {
		panic(fmt.Sprintf("%s: Wait: the duration is not positive: %v", pkg, d))
	}
	return func(s *Settings) { s.Wait = d }
}

// MaxWaiting is the option of the largest number of waiters.
func MaxWaiting(pkg string, n int) Change {
	if n < 1 {
		panic(fmt.Sprintf("%s: MaxWaiting: the number is below 1: %d", pkg, n))
	}
	return func(s *Settings) { s.MaxWaiting = n }
}

// SpreadBy is the option of the random part of times to retry.
func SpreadBy(pkg string, d time.Duration) Change {
	if d < 0 {
		panic(fmt.Sprintf("%s: Spread: the duration is negative: %v", pkg, d))
	}
	return func(s *Settings) { s.Spread.Most = d }
}

// OnFailure is the option of the mode.
func OnFailure(pkg string, mode limit.FailureMode) Change {
	if mode != limit.Open && !(mode >= 0 && mode <= 1) { // it may be no number
		panic(fmt.Sprintf("%s: OnFailure: a share of the limit is %v, want above 0, at most 1", pkg, float64(mode)))
	}
	return func(s *Settings) { s.Mode = mode }
}

// Deadline is the option of the deadline.
func Deadline(pkg string, d time.Duration) Change {
	if d <= 0 {
		panic(fmt.Sprintf("%s: Deadline: the duration is not positive: %v", pkg, d))
	}
	return func(s *Settings) { s.Deadline = d }
}

// Apply applies options to settings, and returns these. A nil option has no effect.
func Apply[S any, O ~func(*S)](s *S, options []O) *S {
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
	return s
}
