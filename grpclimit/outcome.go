package grpclimit

import (
	"context"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// FromContext returns the Outcome of a call to a server, for its handler. It returns
// false if the call was not limited. If several interceptors run, it is the Outcome of the
// innermost.
func FromContext(ctx context.Context) (limit.Outcome, bool) {
	return guard.OutcomeOf[call](ctx)
}

// Settle sets the final cost of a call, as [httplimit.Settle] does. A server's handler calls it with
// the context of the call or stream. After the handler has returned, the interceptor refunds or
// charges the difference. The client waits for that request to Redis too, for at most a [Deadline].
func Settle(ctx context.Context, cost int64) error {
	return guard.SettleIn[call](ctx, "grpclimit", cost)
}
