package grpclimit

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Result is the result of a call.
type Result int

// The results.
const (
	Acquired     = Result(guard.Acquired)     // the call got its permits
	Rejected     = Result(guard.Rejected)     // the call was over the limit
	FailedOpen   = Result(guard.FailedOpen)   // no decision, mostly since Redis failed: the call passed
	FailedClosed = Result(guard.FailedClosed) // no decision, mostly since Redis failed: the call was refused
	Canceled     = Result(guard.Canceled)     // the context has ended, or will end before permits are free
	Invalid      = Result(guard.Invalid)      // refused with [ErrInvalidRequest], the client's fault
)

// String returns the name of the result in metrics: acquired, rejected, failed_open,
// failed_closed, canceled or invalid.
func (r Result) String() string { return guard.Result(r).String() }

// LogValue returns the name of the result, for [log/slog].
func (r Result) LogValue() slog.Value { return slog.StringValue(r.String()) }

// ErrInvalidRequest is the error of an invalid call, which lacks what its limit needs. A [Key], a
// chooser and a cost below 0 cause it; keys of yours may wrap it. Interceptors of servers refuse
// such a call with InvalidArgument in every [FailureMode], since no retry helps; see
// [InvalidAsFailure].
var ErrInvalidRequest = guard.ErrInvalidRequest

// Outcome is the decision on a call or message, and its reasons.
type Outcome struct {
	Result  Result // the decision
	Shadow  bool   // the call passed, whatever Result is
	Local   bool   // decided by this process for its share of the limit, see [Local]
	Limiter string // the name of the limiter; "" if it has none, or none was chosen
	Cost    int64  // the permits of the call
	// Decision has the numbers if Result is Acquired or Rejected. It has only Allowed if a client
	// without [Wait] acquired.
	Decision rratelimiter.Decision
	Each     []rratelimiter.Decision // of each policy, in order, if several are known; else nil
	Err      error                   // why Redis did not decide, or why a wait is hopeless; not for clients

	answer   guard.Answer
	policies *guard.Description
}

// String returns the Outcome for logs, not for clients: "result=rejected limiter=web:192.0.2.1 cost=1
// limit=10 remaining=0 retry_after=3s reset_after=3s violated=[minute]". Fields without a value are
// left out.
func (o Outcome) String() string { return o.forLogs().String() }

// LogValue returns the group of the fields of String, for [log/slog].
func (o Outcome) LogValue() slog.Value { return o.forLogs().LogValue() }

func (o Outcome) forLogs() guard.Report {
	return guard.Report{
		Result: guard.Result(o.Result), Shadow: o.Shadow, Local: o.Local, Limiter: o.Limiter, Cost: o.Cost,
		Decision: o.Decision, Violated: o.Violated(), Err: o.Err,
	}
}

// Violated returns the names of the policies that denied a call.
func (o Outcome) Violated() []string {
	return o.policies.Names(o.policies.Violated(o.answer, o.Cost))
}

// decision returns the decision of a policy.
func (o *Outcome) decision(policy int) rratelimiter.Decision {
	if policy < len(o.Each) {
		return o.Each[policy]
	}
	return o.Decision
}

// FromContext returns the Outcome of a call to a server, for its handler; with [EachMessage] that
// of the last message received. It returns false if the call or message was not limited. If several
// interceptors run, it is the Outcome of the innermost.
func FromContext(ctx context.Context) (Outcome, bool) {
	v := guard.VisitOf[Outcome](ctx)
	if v == nil {
		return Outcome{}, false
	}
	return v.Outcome, true
}

// Settle sets the final cost of a call. A server's handler calls it with the context of the call or
// stream. After the handler has returned, the interceptor refunds or charges the difference, even
// if the context has ended. So log-ins that succeed can cost 0, and a response its size. The last
// Settle of a call counts. The client waits for that request to Redis too, for at most a
// [Deadline].
//
// With [EachMessage], Settle sets the cost of the last message received. It is applied before the
// next message is received.
//
// A refund returns the permits of this call, while they are taken. When its window is over, or a
// bucket has refilled, they have returned, and Settle frees none that others have taken since.
// Permits of a lease are refunded to Redis in the same way, with one call.
//
// Settle does nothing for a call that has taken no permits: one that was not limited, whose limiter
// failed, or that passed only because of Shadow. It fails in these cases:
//
//   - The cost is below 0, or more than 2^53 above the permits taken:
//     [rratelimiter.ErrInvalidPermits].
//   - The handler has returned.
//   - The limiter cannot do it: [errors.ErrUnsupported]. A *[rratelimiter.Limiter] can refund, but
//     not charge. If a [github.com/rratelimiter/rratelimiter/limit.Join] has one as a member, the
//     charge fails later, and [OnSettleError] reports it.
func Settle(ctx context.Context, cost int64) error {
	if err := guard.VisitOf[Outcome](ctx).Settle(cost); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}
