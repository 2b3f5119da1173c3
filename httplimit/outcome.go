package httplimit

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Result is the result of a request.
type Result int

// The results.
const (
	Acquired     = Result(guard.Acquired)     // the request got its permits
	Rejected     = Result(guard.Rejected)     // the request was over the limit
	FailedOpen   = Result(guard.FailedOpen)   // no decision, mostly since Redis failed: the request passed
	FailedClosed = Result(guard.FailedClosed) // no decision, mostly since Redis failed: the request was refused
	Canceled     = Result(guard.Canceled)     // the context has ended, or will end before permits are free
	Invalid      = Result(guard.Invalid)      // refused with [ErrInvalidRequest], the client's fault
)

// String returns the name of the result in metrics: acquired, rejected, failed_open,
// failed_closed, canceled or invalid.
func (r Result) String() string { return guard.Result(r).String() }

// LogValue returns the name of the result, for [log/slog].
func (r Result) LogValue() slog.Value { return slog.StringValue(r.String()) }

// Errors of invalid requests, which lack what their limit needs. A [Key], a chooser and a cost
// below 0 cause them. [Middleware] refuses such a request in every [FailureMode], since no retry
// helps. In a [Transport] the mode decides.
var (
	// ErrInvalidRequest is answered with 400 Bad Request. A custom [Key] may wrap it.
	ErrInvalidRequest = guard.ErrInvalidRequest
	// ErrLengthRequired is answered with 411 Length Required: the cost depends on a body of unknown
	// length.
	ErrLengthRequired = guard.Invalidf("the length of the request's body is unknown")
)

// Outcome is the decision on a request, and its reasons.
type Outcome struct {
	Result  Result // the decision
	Shadow  bool   // the request passed, whatever Result is
	Local   bool   // decided by this process for its share of the limit, see [Local]
	Limiter string // the name of the limiter; "" if it has none, or none was chosen
	Cost    int64  // the permits of the request
	// Decision has the numbers if Result is Acquired or Rejected. It has only Allowed if a
	// Transport without [Wait] acquired.
	Decision rratelimiter.Decision
	Each     []rratelimiter.Decision // of each policy, in order, if several are known; else nil
	Violated []string                // the names of the policies that denied the request
	Err      error                   // why Redis did not decide, or why a wait is hopeless; not for clients
}

// String returns the Outcome for logs, not for clients: "result=rejected limiter=web:192.0.2.1 cost=1
// limit=10 remaining=0 retry_after=3s reset_after=3s violated=[minute]". Fields without a value are
// left out.
func (o Outcome) String() string {
	var text strings.Builder
	for i, attr := range o.attrs() {
		if i > 0 {
			text.WriteByte(' ')
		}
		value := attr.Value.String()
		if value == "" || strings.ContainsFunc(value, isQuoted) {
			value = strconv.Quote(value)
		}
		text.WriteString(attr.Key + "=" + value)
	}
	return text.String()
}

// isQuoted reports whether slog's text handler quotes a value with this rune.
func isQuoted(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }

// LogValue returns the group of the fields of String, for [log/slog].
func (o Outcome) LogValue() slog.Value { return slog.GroupValue(o.attrs()...) }

func (o Outcome) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("result", o.Result.String())}
	add := func(shown bool, attr slog.Attr) {
		if shown {
			attrs = append(attrs, attr)
		}
	}
	add(o.Shadow, slog.Bool("shadow", true))
	add(o.Local, slog.Bool("local", true))
	add(o.Limiter != "", slog.String("limiter", o.Limiter))
	add(o.Cost != 0, slog.Int64("cost", o.Cost))
	d, numbers := o.Decision, o.Decision.Limit > 0
	add(numbers, slog.Int64("limit", d.Limit))
	add(numbers, slog.Int64("remaining", d.Remaining))
	add(d.RetryAfter > 0, slog.Duration("retry_after", d.RetryAfter))
	add(numbers, slog.Duration("reset_after", d.ResetAfter))
	add(len(o.Violated) > 0, slog.Any("violated", o.Violated))
	add(o.Err != nil, slog.Any("error", o.Err))
	return attrs
}

// FromContext returns the Outcome of a request, for its handler or the handler of [Refuse]. It
// returns false if the request was not limited. If several Middlewares wrap a handler, it is the
// Outcome of the innermost.
func FromContext(ctx context.Context) (Outcome, bool) {
	v := guard.VisitOf[guard.HTTP, Outcome](ctx)
	if v == nil {
		return Outcome{}, false
	}
	return v.Outcome, true
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
// Settle does nothing for a request that has taken no permits: one that was not limited, whose
// limiter failed, or that passed only because of Shadow. It fails in these cases:
//
//   - The cost is below 0, or more than 2^53 above the permits taken:
//     [rratelimiter.ErrInvalidPermits].
//   - The handler has returned.
//   - The limiter cannot do it: [errors.ErrUnsupported]. A *[rratelimiter.Limiter] can refund, but
//     not charge. If a [github.com/rratelimiter/rratelimiter/limit.Join] has one as a member, the
//     charge fails later, and [OnSettleError] reports it.
func Settle(ctx context.Context, cost int64) error {
	if err := guard.VisitOf[guard.HTTP, Outcome](ctx).Settle(cost); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}
