package grpclimit

import (
	"context"
	"fmt"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Result is what became of a call.
type Result int

// The results.
const (
	Acquired     = Result(guard.Granted)      // it had its permits
	Rejected     = Result(guard.Refused)      // it was over the limit
	FailedOpen   = Result(guard.FailedOpen)   // nobody could decide, and it passed
	FailedClosed = Result(guard.FailedClosed) // nobody could decide, and it did not pass
	Canceled     = Result(guard.Canceled)     // its context ended before it was decided
)

// String is the result as metrics name it: acquired, rejected, failed_open, failed_closed or canceled.
func (r Result) String() string { return guard.Result(r).String() }

// ErrInvalidRequest is the error of a call that lacks what its limit needs. A [Key], a choice of a limiter and a
// cost below 0 give it; keys of your own may wrap it. Interceptors of servers refuse such a call with
// InvalidArgument in every [FailureMode], since no retry helps; see [InvalidAsFailure].
var ErrInvalidRequest = guard.ErrInvalidRequest

// Outcome is what was decided about a call, or a message, and why. The zero value says nothing.
type Outcome struct {
	Result   Result
	Shadow   bool                    // it passed whatever Result says
	Local    bool                    // decided by this process for its share of the limit, see [Local]
	Limiter  string                  // the name of the limiter; "" where it has none, or none was chosen
	Cost     int64                   // permits that were asked for
	Decision rratelimiter.Decision   // the numbers, where Result is Acquired or Rejected; Allowed alone where a client without [Wait] had its permits
	Each     []rratelimiter.Decision // those of each policy, in order, where several are known; else nil
	Err      error                   // why Redis did not decide; not for clients to see

	known   *known
	invalid bool // FailedClosed for the call itself
}

// Violated is the names of the policies that refused a call.
func (o Outcome) Violated() []string {
	var names []string
	for _, i := range o.violated() {
		names = append(names, o.known.Name(i))
	}
	return names
}

func (o *Outcome) violated() []int {
	if o.known == nil {
		return nil
	}
	return o.known.Violated(guard.Answer{Result: guard.Result(o.Result), Decision: o.Decision, Each: o.Each, Err: o.Err}, o.Cost)
}

// of is the decision of a policy.
func (o *Outcome) of(policy int) rratelimiter.Decision {
	if policy < len(o.Each) {
		return o.Each[policy]
	}
	return o.Decision
}

// FromContext is the outcome that let a call to a server pass, for its handler; with [EachMessage] that of the message received
// last. It says false where the call, or message, was not limited. Of several interceptors it is that of the innermost.
func FromContext(ctx context.Context) (Outcome, bool) {
	v := guard.VisitOf[Outcome](ctx)
	if v == nil {
		return Outcome{}, false
	}
	return v.Outcome, true
}

// Settle says what a call has cost in the end, for a server's handler to call with the context of the call or stream. Once the handler
// has returned the interceptor gives permits back, or charges those that were too few, whether the context has ended or not: the
// log-ins that succeeded cost 0, an answer its size. The last Settle of a call counts. The client waits for that call to Redis
// too, for at most a [Deadline].
//
// With [EachMessage] it says what the message received last has cost, and is done before the next one is received.
//
// It does nothing for a call that has taken nothing: one that was not limited, whose limiter could not be asked, or which a
// Shadow let pass. It fails for a cost below 0, or more than 2^53 above what was taken, with [rratelimiter.ErrInvalidPermits]; after
// the handler has returned; and with [errors.ErrUnsupported] where the limiter cannot do it: a *[rratelimiter.Limiter] can be given
// back permits, but not be charged. That a [github.com/rratelimiter/rratelimiter/limit.Join] has one among its members shows when it is charged, to [OnSettleError].
func Settle(ctx context.Context, cost int64) error {
	if err := guard.VisitOf[Outcome](ctx).Settle(cost); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}
