package gate

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Settings are the options of the middleware of HTTP and the interceptors of gRPC that a gate or a file of
// rules knows. Some are of one of the two.
type Settings struct {
	Follows      bool          // the counts of providers, of outgoing calls
	Kinds        []string      // of these counts; nil for requests
	Wait         time.Duration // in place of a denial; 0 for none, or for outgoing calls Forever
	Shadow       bool          // every request passes
	Spread       Spread
	Mode         limit.FailureMode
	InvalidFails bool // the mode decides invalid requests too
	LimitsHealth bool // calls of gRPC's health and reflection services are limited too
	Deadline     time.Duration
	MaxWaiting   int // 0 for the default
	Denied       int // the status of HTTP of a denial; 0 for the default
	// Refunds reports whether a request is refunded whose response has a status of HTTP, unless its
	// handler settles. It may be nil.
	Refunds   func(status int) bool
	EndUnseen bool // the end of a request is unknown: it is not refunded, and holds its permits for their lease
	Headers   int  // the style of httplimit
	Changed   outage.Changed
	Guard     *outage.Guard // that several share; nil for one with this Deadline and Changed
}

// The defaults. The deadline is long enough for a healthy Redis on a busy host.
const (
	defaultDeadline   = 500 * time.Millisecond
	defaultMaxWaiting = 1000 // of a server; a client has no bound
)

// OpenGuard returns the shared Guard, or a new one with these settings.
func (s *Settings) OpenGuard() *outage.Guard {
	if s.Guard != nil {
		return s.Guard
	}
	return outage.New(s.Deadline, s.Changed)
}

// NewSettings returns the defaults.
func NewSettings() Settings {
	return Settings{Deadline: defaultDeadline, Spread: Spread{Random: rand.Int64N}}
}

// Setting changes the settings that packages have in common.
type Setting func(*Settings)

// The functions below are the options that packages have in common. Each checks its argument, and
// panics with a text that begins with the name of the package.

// Wait is the option of the longest wait.
func Wait(pkg string, d time.Duration) Setting {
	if d <= 0 {
		panic(fmt.Sprintf("%s: Wait: the duration is not positive: %v", pkg, d))
	}
	return func(s *Settings) { s.Wait = d }
}

// MaxWaiting is the option of the largest number of waiters.
func MaxWaiting(pkg string, n int) Setting {
	if n < 1 {
		panic(fmt.Sprintf("%s: MaxWaiting: the number is below 1: %d", pkg, n))
	}
	return func(s *Settings) { s.MaxWaiting = n }
}

// SpreadBy is the option of the random part of times to retry.
func SpreadBy(pkg string, d time.Duration) Setting {
	if d < 0 {
		panic(fmt.Sprintf("%s: Spread: the duration is negative: %v", pkg, d))
	}
	return func(s *Settings) { s.Spread.Most = d }
}

// FollowQuota is the option to follow the counts of providers, of some kinds.
func FollowQuota(kinds []string) Setting {
	return func(s *Settings) { s.Follows, s.Kinds = true, kinds }
}

// OnFailure is the option of the mode.
func OnFailure(pkg string, mode limit.FailureMode) Setting {
	if mode != limit.Open && !(mode >= 0 && mode <= 1) { // it may be no number
		panic(fmt.Sprintf("%s: OnFailure: a share of the limit is %v, want above 0, at most 1", pkg, float64(mode)))
	}
	return func(s *Settings) { s.Mode = mode }
}

// Deadline is the option of the deadline.
func Deadline(pkg string, d time.Duration) Setting {
	if d <= 0 {
		panic(fmt.Sprintf("%s: Deadline: the duration is not positive: %v", pkg, d))
	}
	return func(s *Settings) { s.Deadline = d }
}

// MustCheck panics if every call of a limiter fails. The text begins with the call.
func MustCheck(call string, l limit.Joinable) {
	if outage.IsNil(l) {
		return
	}
	if err := outage.CheckLimiter(l); err != nil {
		panic(fmt.Sprintf("%s: %v", call, err))
	}
}

// MustShare panics with a mode that is a share of the limit if the policies are unknown.
func MustShare(call string, mode limit.FailureMode, l limit.Joinable) {
	if mode > 0 && !outage.IsNil(l) && !outage.HasShare(l) {
		panic(fmt.Sprintf("%s: the policies of limiter %q are unknown: pass InitialRate to it, for Local", call, l.Name()))
	}
}

// Spread adds a random part to the times after which clients retry, so that clients that were
// refused at the same time do not return at the same time.
type Spread struct {
	Most   time.Duration       // 0 for none
	Random func(n int64) int64 // returns a number from 0 to n-1
}

// Add returns a random time of at least after, and less than Most above it. A time of 0, which
// means that no retry helps, stays 0.
func (s Spread) Add(after time.Duration) time.Duration {
	if s.Most <= 0 || after <= 0 {
		return after
	}
	return max(after, after+time.Duration(s.Random(int64(s.Most)))) // the sum may overflow
}

// RoundUp returns d in whole units, rounded up.
func RoundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
