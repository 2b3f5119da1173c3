package grpclimit

import (
	"context"
	"fmt"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// FromContext returns the Outcome of a call to a server, for its handler. It returns
// false if the call was not limited. If several interceptors run, it is the Outcome of the
// innermost.
func FromContext(ctx context.Context) (limit.Outcome, bool) {
	v := guard.VisitOf[guard.GRPC](ctx)
	if v == nil {
		return limit.Outcome{}, false
	}
	return v.Outcome, true
}

// Settle sets the final cost of a call, as [httplimit.Settle] does. A server's handler calls it with
// the context of the call or stream. After the handler has returned, the interceptor refunds or
// charges the difference. The client waits for that request to Redis too, for at most a [Deadline].
func Settle(ctx context.Context, cost int64) error {
	if err := guard.VisitOf[guard.GRPC](ctx).Settle(cost); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}
