package grpclimit

import (
	"context"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Option is a setting of an interceptor. Of some only those of servers, of clients or of streams make use.
type Option func(*settings)

type settings struct {
	known     *known // of limiters that do not tell themselves
	cost      func(context.Context, Call) int64
	skip      func(context.Context, Call) bool
	subject   func(context.Context, Call) string
	wait      time.Duration
	atOnce    bool
	each      bool
	shadow    bool
	report    func(context.Context, Call, Outcome)
	unsettled func(context.Context, Call, error)

	mode         FailureMode
	invalidFails bool
	deadline     time.Duration
	maxWaiting   int  // 0 for the default
	exemptNone   bool // calls of the health and reflection services are limited too
	changed      func(up bool, err error)
	sharing      guard.Sharing
}

func init() {
	guard.ShareGRPC = func(sharing guard.Sharing) any {
		return Option(func(s *settings) { s.sharing = sharing })
	}
}

// DefaultDeadline is how long Redis has to answer, unless [Deadline] says otherwise.
const DefaultDeadline = 100 * time.Millisecond

// DefaultMaxWaiting is how many calls wait at once in an interceptor of a server, unless [MaxWaiting] says otherwise.
const DefaultMaxWaiting = 1000

// Policies says what the chosen limiters limit by, in their order, where they do not come from [Each]: a *[limit.Limiter] does not
// tell its policies, and the rate of a *[rratelimiter.Limiter], which is a [limit.SlidingLog], is in Redis. It is what clients
// are told of and [Local] has a share of. Policies panics if a policy is invalid.
func Policies(policies ...limit.Policy) Option {
	known := mustDescribe("Policies", policies)
	return func(s *settings) { s.known = known }
}

// Cost sets what a call or message costs, 1 by default. What costs 0 passes, and nothing is asked for it. A cost
// below 0 is [ErrInvalidRequest]. A cost above what the limit could ever grant is refused for good, without a
// RetryInfo.
func Cost(cost func(context.Context, Call) int64) Option {
	return func(s *settings) { s.cost = cost }
}

// Skip lets the calls or messages pass for which it says true, and asks nothing for them: health checks, methods, ranges of
// addresses (with [Address.Client]).
func Skip(skip func(context.Context, Call) bool) Option {
	return func(s *settings) { s.skip = skip }
}

// EachMessage limits each message of a stream instead of its start: on a server those that it receives, on a client those that
// it sends. The message is in the [Call], for [Cost] for instance.
//
// On a server a message that is refused comes out of RecvMsg as the status that the client shall get, for the handler to return. A
// handler that receives on instead has shed that message.
//
// On a client SendMsg waits for the message's permits. Where they are not to be had it fails with [ErrNotSent], and ends the stream,
// as errors of SendMsg do.
func EachMessage() Option {
	return func(s *settings) { s.each = true }
}

// Wait holds a call back for at most d instead of denying it, if its permits can be had by then. Calls that wait for one limiter are
// served in their order; a later call that finds a permit free does not wait. A client, which waits as long as the context of a
// call lasts, waits no longer than d. [MaxWaiting] bounds how many wait.
func Wait(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("grpclimit: Wait: %v is no time to wait", d))
	}
	return func(s *settings) { s.wait, s.atOnce = d, false }
}

// MaxWaiting bounds how many calls or messages wait at once in an interceptor: a further one is denied at once, with the RetryInfo
// that it would have without [Wait]. It is [DefaultMaxWaiting] for a server. For a client, whose callers wait by their own choice,
// there is no bound by default. MaxWaiting panics if n is below 1.
func MaxWaiting(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("grpclimit: MaxWaiting: %d, want 1 or more", n))
	}
	return func(s *settings) { s.maxWaiting = n }
}

// HealthAndReflection lets a server limit calls of the services grpc.health.v1.Health and grpc.reflection too. Without it they pass and
// ask nothing: a probe that is denied takes a server out of service that has nothing wrong with it.
func HealthAndReflection() Option {
	return func(s *settings) { s.exemptNone = true }
}

// AtOnce lets a client's call fail at once instead of waiting. Servers do so without it.
func AtOnce() Option {
	return func(s *settings) { s.wait, s.atOnce = 0, true }
}

// Shadow lets all calls pass, and tells no client of limits. They take their permits and are decided as ever, for
// [Report] and the handler to see.
func Shadow() Option {
	return func(s *settings) { s.shadow = true }
}

// Report sets what is told of every decision, before the call goes on, by its own goroutine.
func Report(report func(context.Context, Call, Outcome)) Option {
	return func(s *settings) { s.report = report }
}

// Subject sets what a server's refusals name as the subject of the quota, "tenant:gold" for instance. By default they name none: what
// tells callers apart, an address or an API key, may be nobody else's to see, and behind a proxy it is somebody else who sees it.
// Text that is no valid UTF-8 is left out.
func Subject(subject func(context.Context, Call) string) Option {
	return func(s *settings) { s.subject = subject }
}

// OnSettleError sets what is told of a [Settle] whose call to Redis failed. What was to come back stays taken then, and what was to
// be charged is not.
func OnSettleError(failed func(context.Context, Call, error)) Option {
	return func(s *settings) { s.unsettled = failed }
}

// FailureMode is what becomes of a call while nobody can tell whether it is within its limit: Redis fails or does
// not answer by the [Deadline], a limiter has no rate, or the choice of a limiter fails, as it does where it
// cannot be told who asks. A call that lacks what its limit needs is no such case, see [ErrInvalidRequest]. The
// mode is [Closed], [Open] or [Local]; the zero value is Closed.
type FailureMode float64

// The modes besides Local.
const (
	// Closed does not let it pass: Unavailable with a RetryInfo of a second. It is the default: a client that can make a
	// choice fail gains nothing.
	Closed = FailureMode(guard.Closed)
	// Open lets it pass.
	Open = FailureMode(guard.Open)
)

// Local lets this process grant a share of each limit by itself while Redis fails: a tenth where ten processes share it. Each key
// has a bucket of its own. A share is kept strictly: no interval of a window holds more than the share of its permits, of which
// half can be had at once; a bucket is the share of its Capacity and Refill. A call that costs more than can be had at once,
// as any does where the share is less than one permit, is Closed. What was taken in Redis before does not count, and what is taken
// here does not count there; it does where Redis fails again soon.
//
// It has to know policies (of [Each] or [Policies]) and the limiter's name; else, and where it cannot be told who asks, it is
// Closed. Beyond 65,536 keys at once, which take some 9 MB, further ones are Closed too. Each interceptor has a share of its own.
//
// Local panics where the share is not above 0 and at most 1.
func Local(share float64) FailureMode {
	if !(share > 0 && share <= 1) {
		panic(fmt.Sprintf("grpclimit: Local: a share of %v, want above 0, at most 1", share))
	}
	return FailureMode(share)
}

// OnFailure sets the failure mode.
//
// While Redis is down, calls do not wait for it. It counts as down once a request has failed and none has been answered for as long as
// the Deadline. From then on, the mode decides calls at once, and the interceptor asks Redis in the
// background: one request at a time, which takes no permits, at first once in each Deadline, then once a second. The first answer
// ends the outage. A minute after the latest call that ends, and the next call asks Redis itself.
//
// A decision of a limiter is always an answer of Redis, or of a Client's denial cache or leases. A denial does not end an outage,
// since it may be the cache's.
func OnFailure(mode FailureMode) Option {
	if err := guard.Mode(mode).Check(); err != nil {
		panic("grpclimit: OnFailure: " + err.Error())
	}
	return func(s *settings) { s.mode = mode }
}

// InvalidAsFailure lets the [FailureMode] decide calls whose error is [ErrInvalidRequest]: with [Closed] they end
// with Unavailable and not InvalidArgument, with [Open] they pass. Interceptors of clients do so without it.
func InvalidAsFailure() Option {
	return func(s *settings) { s.invalidFails = true }
}

// Deadline sets how long Redis has to answer for a call, [DefaultDeadline] by default. A wait for permits comes on top, and
// where a handler settles, another request of the same deadline.
func Deadline(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("grpclimit: Deadline: %v, want above 0", d))
	}
	return func(s *settings) { s.deadline = d }
}

// OnStoreChange sets the callback for each change of the state of Redis, as far as calls see it: that it is down, with the error, and that
// it is up again. It is called in order, one at a time. The first is made by the call that sees the outage, which waits for it; the
// end of an outage is mostly seen in the background, where a panic of the callback is dropped.
func OnStoreChange(changed func(up bool, err error)) Option {
	return func(s *settings) { s.changed = changed }
}
