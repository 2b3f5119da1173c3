package grpclimit

import (
	"context"
	"fmt"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Outcome is the decision on a call, and its reasons.
type Outcome = httplimit.Outcome

// Result is the result of a call.
type Result = httplimit.Result

// The results, see package httplimit.
const (
	Acquired     = httplimit.Acquired
	Rejected     = httplimit.Rejected
	FailedOpen   = httplimit.FailedOpen
	FailedClosed = httplimit.FailedClosed
	Canceled     = httplimit.Canceled
	Invalid      = httplimit.Invalid
)

// ErrInvalidRequest is the error of an invalid call, which lacks what its limit needs. A [Key], a
// chooser and a cost below 0 cause it; keys of yours may wrap it. Interceptors of servers refuse
// such a call with InvalidArgument in every [FailureMode], since no retry helps. In a client's
// interceptor the mode decides.
var ErrInvalidRequest = httplimit.ErrInvalidRequest

// FromContext returns the Outcome of a call to a server, for its handler. It returns
// false if the call was not limited. If several interceptors run, it is the Outcome of the
// innermost.
func FromContext(ctx context.Context) (Outcome, bool) {
	v := guard.VisitOf[guard.GRPC, Outcome](ctx)
	if v == nil {
		return Outcome{}, false
	}
	return v.Outcome, true
}

// Settle sets the final cost of a call, as [httplimit.Settle] does. A server's handler calls it with
// the context of the call or stream. After the handler has returned, the interceptor refunds or
// charges the difference. The client waits for that request to Redis too, for at most a [Deadline].
func Settle(ctx context.Context, cost int64) error {
	if err := guard.VisitOf[guard.GRPC, Outcome](ctx).Settle(cost); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}
