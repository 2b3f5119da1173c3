package grpclimit

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Option is a setting of an interceptor. Some options apply only to servers, to clients or to
// streams.
type Option func(*settings)

type settings struct {
	policies   *guard.Description // of limiters without a description of their own
	cost       func(context.Context, Call) int64
	skip       func(context.Context, Call) bool
	subject    func(context.Context, Call) string
	each       bool
	report     func(context.Context, Call, Outcome)
	unsettled  func(context.Context, Call, error)
	exemptNone bool // calls of the health and reflection services are limited too
	guard.Settings
}

func init() {
	guard.GRPCOption = func(change guard.Change) any { return common(change) }
}

// common returns an option of the settings that grpclimit and httplimit have in common.
func common(change guard.Change) Option {
	return func(s *settings) { change(&s.Settings) }
}

// DefaultDeadline is the time that Redis has to answer without [Deadline]. It is long enough for a
// healthy Redis on a busy host. An outage costs it once, not once for each request, see [OnFailure].
const DefaultDeadline = 500 * time.Millisecond

// DefaultMaxWaiting is the largest number of calls that wait at once in an interceptor of a server
// without [MaxWaiting].
const DefaultMaxWaiting = 1000

// Policies describes the policies of the chosen limiters, in their order. Statuses name them, and
// [Local] grants a share of them. Limiters of [Each] need no Policies. Others do: a
// *[limit.Limiter] does not export its policies, and the rate of a *[rratelimiter.Limiter], a
// [limit.SlidingLog], is in Redis. Policies panics if a policy is invalid.
func Policies(policies ...limit.Policy) Option {
	d := guard.MustDescribe("grpclimit: Policies", policies...)
	return func(s *settings) { s.policies = d }
}

// Cost sets the cost of a call or message, 1 by default. A call of cost 0 passes without a call to
// Redis. A cost below 0 is [ErrInvalidRequest]. A cost above the largest possible grant is always
// denied, without a RetryInfo.
func Cost(cost func(context.Context, Call) int64) Option {
	return func(s *settings) { s.cost = cost }
}

// Skip lets the calls or messages pass for which skip returns true, without a call to Redis: health
// checks, methods, or ranges of addresses (with [Address.Client]).
func Skip(skip func(context.Context, Call) bool) Option {
	return func(s *settings) { s.skip = skip }
}

// EachMessage limits each message of a stream instead of its start: on a server the messages that
// it receives, on a client those that it sends. The message is in the [Call], for instance for
// [Cost].
//
// On a server, RecvMsg returns the status of a message that is denied, for the handler to return. A
// handler that continues to receive drops that message.
//
// On a client, SendMsg waits for the message's permits. If they are not free in time, it fails with
// [ErrNotSent] and ends the stream, like other errors of SendMsg.
func EachMessage() Option {
	return func(s *settings) { s.each = true }
}

// Wait lets a call wait for at most d instead of being denied, if its permits are free by then.
// Calls that wait for one limiter are served in order. A later call that finds a free permit does
// not wait. A client waits as long as the context of a call lasts by default, and with Wait for at
// most d. [MaxWaiting] bounds the number of waiters.
func Wait(d time.Duration) Option { return common(guard.Wait("grpclimit", d)) }

// MaxWaiting bounds the number of calls or messages that wait at once in an interceptor. A further
// call is denied at once, with the same RetryInfo as without [Wait]. A server has
// [DefaultMaxWaiting] by default. A client has no bound by default, since its callers choose to
// wait. MaxWaiting panics if n is below 1.
func MaxWaiting(n int) Option { return common(guard.MaxWaiting("grpclimit", n)) }

// HealthAndReflection lets a server limit calls of the services grpc.health.v1.Health and
// grpc.reflection too. Without it they pass without a call to Redis, since a probe that is denied
// takes a healthy server out of service.
func HealthAndReflection() Option {
	return func(s *settings) { s.exemptNone = true }
}

// Spread adds a random part of less than d to the RetryInfo and the retry pushback of each call that
// a server refuses. So clients that were refused at the same time do not return at the same time.
// The sum is never below the exact time. A refusal without a RetryInfo stays without one. There is
// no random part by default, or if d is 0. Spread panics if d is below 0.
func Spread(d time.Duration) Option { return common(guard.SpreadBy("grpclimit", d)) }

// AtOnce lets a client's call fail at once instead of waiting. Servers always do.
func AtOnce() Option {
	return func(s *settings) { s.Wait, s.AtOnce = 0, true }
}

// Shadow lets all calls pass, and reports no limits to clients. Calls still take permits and are
// decided, for [Report] and the handler.
func Shadow() Option { return common(func(s *guard.Settings) { s.Shadow = true }) }

// Report sets a callback for every decision. It runs in the goroutine of the call, before the call
// proceeds.
func Report(report func(context.Context, Call, Outcome)) Option {
	return func(s *settings) { s.report = report }
}

// Subject sets the subject of the quota in a server's refusals, for instance "tenant:gold". There
// is none by default: the key of a call, an address or an API key, may be private, and behind a
// proxy other clients see it. Text that is not valid UTF-8 is left out.
func Subject(subject func(context.Context, Call) string) Option {
	return func(s *settings) { s.subject = subject }
}

// OnSettleError sets a callback for each [Settle] whose call to Redis failed. Such a Settle has no
// effect: permits to refund stay taken, and permits to charge are not charged.
func OnSettleError(failed func(context.Context, Call, error)) Option {
	return func(s *settings) { s.unsettled = failed }
}

// FailureMode decides calls that cannot be checked against their limit: [Closed], [Open] or
// [Local]. The zero value is Closed. It applies in these cases:
//
//   - Redis fails, or does not answer by the [Deadline].
//   - A limiter has no rate.
//   - The chooser returns an error, for instance because the client's address is unknown. For
//     [ErrInvalidRequest] see [InvalidAsFailure].
type FailureMode float64

// The modes besides Local.
const (
	// Closed refuses the call: Unavailable with a RetryInfo of a second. It is the default, so that
	// a client gains nothing by making a chooser fail.
	Closed = FailureMode(guard.Closed)
	// Open lets the call pass.
	Open = FailureMode(guard.Open)
)

// Local lets this process grant a share of each limit while Redis fails: a tenth if ten processes
// share the limit. Each interceptor has a share of its own, and each key a bucket of its own.
//
//   - A window never holds more than the share of its permits in any interval. Half of the share
//     can be granted at once.
//   - A bucket has the share of its Capacity and Refill.
//   - A call that costs more than can be granted at once is Closed. If the share is less than one
//     permit, all calls are.
//   - Permits taken in Redis do not count here, and permits taken here do not count in Redis. If
//     Redis fails again soon, the local permits still count.
//   - Each limiter of a [github.com/rratelimiter/rratelimiter/limit.Join] has the bucket of its own
//     name. A call passes if all have its permits; else none is taken.
//   - At most 131,072 buckets exist at once, one for each policy of a key, in some 24 MB. Calls
//     that need more are Closed.
//
// Local needs the names and the policies of all limiters, the latter of [Each] or [Policies].
// Without them, or if the key is unknown, calls are Closed.
//
// Local panics if the share is not above 0 and at most 1.
func Local(share float64) FailureMode { return FailureMode(guard.Local("grpclimit", share)) }

// OnFailure sets the failure mode.
//
// Redis is down once a request to it has failed and none has been answered for the time of the
// Deadline. From then on, the mode decides calls at once, and none waits for Redis. The interceptor
// probes Redis in the background, with one request at a time that takes no permits. It probes once
// in each Deadline at first, later once a second. The first answer ends the outage. If no call
// arrives for a minute, the probes end, and the next call asks Redis itself.
//
// The decision of a limiter is always an answer of Redis, or of a Client's denial cache or leases.
// A denial does not end an outage, since it may come from the cache.
func OnFailure(mode FailureMode) Option {
	return common(guard.OnFailure("grpclimit", guard.Mode(mode)))
}

// InvalidAsFailure lets the [FailureMode] decide calls whose error is [ErrInvalidRequest]. With
// [Closed] they end with Unavailable instead of InvalidArgument, with [Open] they pass. Their
// [Result] is FailedClosed or FailedOpen. Interceptors of clients always do this.
func InvalidAsFailure() Option { return common(func(s *guard.Settings) { s.InvalidFails = true }) }

// Deadline sets the time that Redis has to answer for a call, [DefaultDeadline] by default. A wait
// for permits is not part of it. A [Settle] is another request with the same deadline.
func Deadline(d time.Duration) Option { return common(guard.Deadline("grpclimit", d)) }

// OnRedisChange sets a callback for each change of the state of Redis, as calls observe it. up is
// false with the error if Redis is down, and true if it is up again. Callbacks come in order, one
// at a time. The call that observes an outage runs the callback itself and waits for it. The end of
// an outage is mostly observed in the background, where a panic of the callback is dropped.
func OnRedisChange(changed func(up bool, err error)) Option {
	return common(func(s *guard.Settings) { s.Changed = changed })
}
