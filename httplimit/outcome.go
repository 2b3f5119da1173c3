package httplimit

import (
	"context"
	"fmt"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Result is what became of a request.
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
func (r Result) String() string {
	return guard.Result(r).String()
}

// The errors of requests that lack what their limit needs. A [Key], a choice of a limiter and a cost below 0 give them.
// [Middleware] refuses such a request in every [FailureMode], since no retry helps; see [InvalidAsFailure].
var (
	// ErrInvalidRequest is answered with 400 Bad Request. Keys of your own may wrap it.
	ErrInvalidRequest = guard.ErrInvalidRequest
	// ErrLengthRequired is answered with 411 Length Required: the cost is of a body whose length is unknown.
	ErrLengthRequired = guard.Invalidf("the length of the request's body is not known")
)

// Outcome is what was decided about a request, and why. The zero value says nothing.
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
	waited  bool     // for its permits, so that the numbers are those of before
	invalid *problem // what answers a request that lacks what its limit needs
}

// Violated is the names of the policies that refused a request.
func (o Outcome) Violated() []string {
	if o.known == nil {
		return nil
	}
	a := guard.Answer{Result: guard.Result(o.Result), Decision: o.Decision, Each: o.Each, Err: o.Err}
	var names []string
	for _, i := range o.known.Violated(a, o.Cost) {
		names = append(names, o.known.Name(i))
	}
	return names
}

// FromContext is the outcome that let a request pass, for its handler, or that did not, for what [Refuse] was given. It says false
// where the request was not limited. Of several Middlewares around a handler it is that of the innermost.
func FromContext(ctx context.Context) (Outcome, bool) {
	v := guard.VisitOf[Outcome](ctx)
	if v == nil {
		return Outcome{}, false
	}
	return v.Outcome, true
}

// Settle says what a request has cost in the end, for its handler to call with the request's context. Once the handler has
// returned the Middleware gives permits back, or charges those that were too few, whether the context has ended or not: the
// log-ins that succeeded cost 0, a download its bytes. The last Settle of a request counts. Where the handler has written less
// than is sent at once, the client waits for that call too, for at most a [Deadline].
//
// It does nothing for a request that has taken nothing: one that was not limited, whose limiter could not be asked, or which a
// Shadow let pass. It fails for a cost below 0, or more than 2^53 above what was taken, with [rratelimiter.ErrInvalidPermits]; after
// the handler has returned; and with [errors.ErrUnsupported] where the limiter cannot do it: a *[rratelimiter.Limiter] can be given
// back permits, but not be charged. That a [github.com/rratelimiter/rratelimiter/limit.Join] has one among its members shows when it is charged, to [OnSettleError].
func Settle(ctx context.Context, cost int64) error {
	if err := guard.VisitOf[Outcome](ctx).Settle(cost); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}
