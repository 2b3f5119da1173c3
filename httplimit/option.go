package httplimit

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Option is a setting of [Middleware] or [Transport]. Of some only one of the two makes use.
type Option func(*settings)

type settings struct {
	style     HeaderStyle
	known     *known // of limiters that do not tell themselves
	cost      func(*http.Request) int64
	skip      func(*http.Request) bool
	wait      time.Duration
	shadow    bool
	report    func(*http.Request, Outcome)
	refuse    http.Handler
	unsettled func(*http.Request, error)

	mode         FailureMode
	invalidFails bool
	deadline     time.Duration
	maxWaiting   int // 0 for the default
	changed      func(up bool, err error)
	sharing      guard.Sharing
}

func init() {
	guard.ShareHTTP = func(sharing guard.Sharing) any {
		return Option(func(s *settings) { s.sharing = sharing })
	}
}

// DefaultDeadline is how long Redis has to answer, unless [Deadline] says otherwise.
const DefaultDeadline = 100 * time.Millisecond

// DefaultMaxWaiting is how many requests wait at once in a [Middleware], unless [MaxWaiting] says otherwise.
const DefaultMaxWaiting = 1000

// newSettings applies the options. It returns the guard too, in which so many requests wait at once unless an option says otherwise,
// 0 for any number.
func newSettings(opts []Option, maxWaiting int) (*settings, *guard.Guard) {
	s := &settings{deadline: DefaultDeadline, sharing: guard.NewShared, known: describe(nil)}
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}
	return s, s.sharing(s.deadline, s.changed).Guard(guard.Mode(s.mode), cmp.Or(s.maxWaiting, maxWaiting))
}

// HeaderStyle is how clients are told what is left. The zero value is Draft11. Retry-After comes with all of them.
type HeaderStyle int

// The styles. Seconds are rounded up.
const (
	Draft11      HeaderStyle = iota // RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11, an item for each policy
	ThreeHeaders                    // RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset in seconds, as Envoy's and of draft 06
	XRateLimit                      // X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset as Unix time, as GitHub's
	NoHeaders                       // none
)

// Headers sets how clients of a Middleware are told what is left. It panics where the style is none of this package.
func Headers(style HeaderStyle) Option {
	if style < Draft11 || style > NoHeaders {
		panic(fmt.Sprintf("httplimit: Headers: %d is none of Draft11, ThreeHeaders, XRateLimit and NoHeaders", int(style)))
	}
	return func(s *settings) { s.style = style }
}

// Policies says what the chosen limiters limit by, in their order, where they do not come from [Each]: a *[limit.Limiter] does not
// tell its policies, and the rate of a *[rratelimiter.Limiter], which is a [limit.SlidingLog], is in Redis. It is what headers
// name and [Local] has a share of. Policies panics if a policy is invalid.
func Policies(policies ...limit.Policy) Option {
	known := mustDescribe("Policies", policies)
	return func(s *settings) { s.known = known }
}

// Cost sets what a request costs, 1 by default. A request of cost 0 passes, and nothing is asked for it. A cost
// below 0 is [ErrInvalidRequest], or [ErrLengthRequired] if the request has a body of unknown length. A cost above
// what the limit could ever grant is refused for good, without a Retry-After.
func Cost(cost func(*http.Request) int64) Option {
	return func(s *settings) { s.cost = cost }
}

// Skip lets the requests pass for which it says true, and asks nothing for them: health checks, methods, ranges of addresses
// (with [Address.Client]).
func Skip(skip func(*http.Request) bool) Option {
	return func(s *settings) { s.skip = skip }
}

// Wait holds a request back for at most d instead of denying it, if its permits can be had by then. Requests that wait for one
// limiter are served in their order; a later request that finds a permit free does not wait. A Transport, which waits as long as the
// context of a request lasts, waits no longer than d. [MaxWaiting] bounds how many wait.
func Wait(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("httplimit: Wait: %v is no time to wait", d))
	}
	return func(s *settings) { s.wait = d }
}

// MaxWaiting bounds how many requests wait at once in a Middleware or Transport: a further one is denied at once, with the Retry-After
// that it would have without [Wait]. It is [DefaultMaxWaiting] for a Middleware. For a Transport, whose callers wait by their own
// choice, there is no bound by default. MaxWaiting panics if n is below 1.
func MaxWaiting(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("httplimit: MaxWaiting: %d, want 1 or more", n))
	}
	return func(s *settings) { s.maxWaiting = n }
}

// Shadow lets all requests pass, and tells no client of limits. Requests take their permits and are decided as ever, for
// [Report] and the handler to see.
func Shadow() Option {
	return func(s *settings) { s.shadow = true }
}

// Report sets what is told of every decision, before the request goes on, by its own goroutine.
func Report(report func(*http.Request, Outcome)) Option {
	return func(s *settings) { s.report = report }
}

// Refuse sets what answers in place of the handler, with the [Outcome] in the request's context. Headers that tell limits are set
// by then. By default it is a problem document (RFC 9457): 429 Too Many Requests, with the policies that refused, or 503 Service
// Unavailable where nobody could decide; it tells nothing of errors.
func Refuse(handler http.Handler) Option {
	return func(s *settings) { s.refuse = handler }
}

// OnSettleError sets what is told of a [Settle] whose call to Redis failed. What was to come back stays taken then, and what was to
// be charged is not.
func OnSettleError(failed func(*http.Request, error)) Option {
	return func(s *settings) { s.unsettled = failed }
}

// FailureMode is what becomes of a request while nobody can tell whether it is within its limit: Redis fails or
// does not answer by the [Deadline], a limiter has no rate, or the choice of a limiter fails, as it does where it
// cannot be told who asks. A request that lacks what its limit needs is no such case, see [ErrInvalidRequest]. The
// mode is [Closed], [Open] or [Local]; the zero value is Closed.
type FailureMode float64

// The modes besides Local.
const (
	// Closed does not let it pass: 503 Service Unavailable with a Retry-After of a second. It is the default: a client that can make
	// a choice fail gains nothing.
	Closed = FailureMode(guard.Closed)
	// Open lets it pass.
	Open = FailureMode(guard.Open)
)

// Local lets this process grant a share of each limit by itself while Redis fails: a tenth where ten processes share it. Each key
// has a bucket of its own. A share is kept strictly: no interval of a window holds more than the share of its permits, of which
// half can be had at once; a bucket is the share of its Capacity and Refill. A request that costs more than can be had at once,
// as any does where the share is less than one permit, is Closed. What was taken in Redis before does not count, and what is taken
// here does not count there; it does where Redis fails again soon.
//
// It has to know policies (of [Each] or [Policies]) and the limiter's name; else, and where it cannot be told who asks, it is
// Closed. Beyond 65,536 keys at once, which take some 9 MB, further ones are Closed too.
//
// Local panics where the share is not above 0 and at most 1.
func Local(share float64) FailureMode {
	if !(share > 0 && share <= 1) {
		panic(fmt.Sprintf("httplimit: Local: a share of %v, want above 0, at most 1", share))
	}
	return FailureMode(share)
}

// OnFailure sets the failure mode.
//
// While Redis is down, requests do not wait for it. It counts as down once a call has failed and none has been answered for as long as
// the Deadline. From then on, the mode decides requests at once, and the Middleware or Transport asks Redis in the
// background: one call at a time, which takes no permits, at first once in each Deadline, then once a second. The first answer
// ends the outage. A minute after the latest request that ends, and the next request asks Redis itself.
//
// A decision of a limiter is always an answer of Redis, or of a Client's denial cache or leases. A denial does not end an outage,
// since it may be the cache's.
func OnFailure(mode FailureMode) Option {
	if err := guard.Mode(mode).Check(); err != nil {
		panic("httplimit: OnFailure: " + err.Error())
	}
	return func(s *settings) { s.mode = mode }
}

// InvalidAsFailure lets the [FailureMode] decide requests whose error is [ErrInvalidRequest]: with [Closed] they
// get 503 and not 400 or 411, with [Open] they pass. A [Transport] does so without it.
func InvalidAsFailure() Option {
	return func(s *settings) { s.invalidFails = true }
}

// Deadline sets how long Redis has to answer for a request, [DefaultDeadline] by default. A wait for permits comes on top, and
// where a handler settles, another call of the same deadline.
func Deadline(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("httplimit: Deadline: %v, want above 0", d))
	}
	return func(s *settings) { s.deadline = d }
}

// OnStoreChange sets the callback for each change of the state of Redis, as far as requests see it: that it is down, with the error, and
// that it is up again. Calls come in order, one at a time. The first is made by the request that sees the outage, which waits for
// it; the end of an outage is mostly seen in the background, where a panic of the callback is dropped.
func OnStoreChange(changed func(up bool, err error)) Option {
	return func(s *settings) { s.changed = changed }
}
