package httplimit

import (
	"context"
	"fmt"
	"net/http"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// ErrLengthRequired is a [limit.ErrInvalidRequest] that is answered with 411 Length Required: the cost
// depends on a body of unknown length.
var ErrLengthRequired = fmt.Errorf("the length of the request's body is unknown: %w", limit.ErrInvalidRequest)

// FromContext returns the Outcome of a request, for its handler or the handler of [Refuse]. It
// returns false if the request was not limited. If several Middlewares wrap a handler, it is the
// Outcome of the innermost.
func FromContext(ctx context.Context) (limit.Outcome, bool) {
	return guard.OutcomeOf[*http.Request](ctx)
}

// Settle sets the final cost of a request. Its handler calls it with the request's context. After
// the handler has returned, the Middleware refunds or charges the difference, even if the context
// has ended. For example, a successful log-in can cost 0, and a download its size in bytes. The last
// Settle of a request counts. If the handler has written little, the client waits for that call
// too, for at most a [Deadline].
//
// A refund returns the permits of this request, while they are taken. When its window is over, or a
// bucket has refilled, they have returned, and Settle frees none that others have taken since.
// Permits of a lease are refunded to Redis in the same way, with one call.
//
// Settle does nothing for a request that has taken no permits: one that was not limited, that Open let
// pass, or that passed only because of Shadow. It fails in these cases:
//
//   - The cost is below 0, or more than 2^53 above the permits taken:
//     [rratelimiter.ErrInvalidPermits].
//   - The handler has returned.
//   - The limiter cannot do it: [errors.ErrUnsupported]. A *[rratelimiter.Limiter] can refund, but
//     not charge. If a [github.com/rratelimiter/rratelimiter/limit.Join] has one as a member, the
//     charge fails later, and [OnSettleError] reports it.
func Settle(ctx context.Context, cost int64) error {
	return guard.SettleIn[*http.Request](ctx, "httplimit", cost)
}
