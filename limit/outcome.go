package limit

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter"
)

// Result is the result of a request that middleware has decided.
type Result int

// The results.
const (
	Acquired     Result = iota + 1 // the request got its permits
	Rejected                       // the request was over the limit
	FailedOpen                     // no decision, mostly since Redis failed: the request passed
	FailedClosed                   // no decision, mostly since Redis failed: the request was refused
	Canceled                       // the context has ended, or will end before permits are free
	Invalid                        // refused with [ErrInvalidRequest], the client's fault
)

var resultNames = map[Result]string{
	Acquired: "acquired", Rejected: "rejected", FailedOpen: "failed_open", FailedClosed: "failed_closed",
	Canceled: "canceled", Invalid: "invalid",
}

// String returns the name of the result in metrics: acquired, rejected, failed_open,
// failed_closed, canceled or invalid.
func (r Result) String() string {
	if name, ok := resultNames[r]; ok {
		return name
	}
	return fmt.Sprintf("Result(%d)", int(r))
}

// LogValue returns the name of the result, for [log/slog].
func (r Result) LogValue() slog.Value { return slog.StringValue(r.String()) }

// ErrInvalidRequest is the error of a request that lacks what its limit needs, such as an API key. A
// key, a chooser and a cost below 0 cause it; a key of yours may wrap it. Servers refuse such a
// request in every [FailureMode], since no retry helps: with 400 Bad Request or InvalidArgument. In a
// client the mode decides.
var ErrInvalidRequest = errors.New("rratelimiter: invalid request: a key or a cost is missing")

// Outcome is the decision of middleware on a request, and its reasons. Packages httplimit and
// grpclimit pass it to the callback of Report, and to the handler by FromContext.
type Outcome struct {
	Result  Result // the decision
	Shadow  bool   // the request passed, whatever Result is
	Local   bool   // decided by this process for its share of the limit, see [Local]
	Limiter string // the name of the limiter; "" if it has none, or none was chosen
	Cost    int64  // the permits of the request
	// Decision has the numbers if Result is Acquired or Rejected. It has those of the denial if Result is
	// Canceled after a wait.
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

// FailureMode decides requests while Redis cannot: [Closed], [Open] or [Local]. The zero value is
// Closed. Packages httplimit, grpclimit and fallback take one with their option OnFailure. The page
// [Failure modes] defines an outage.
//
// [Failure modes]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md#failure-modes
type FailureMode float64

// The modes besides Local.
const (
	Closed FailureMode = 0  // refuses the request, so that a client gains nothing by making Redis fail
	Open   FailureMode = -1 // lets the request pass
)

// Local lets this process grant a share of each limit while Redis fails: a tenth if ten processes
// share the limit. Each key has a bucket of its own.
//
//   - A window never holds more than the share of its permits in any interval. Half of the share
//     can be granted at once.
//   - A bucket has the share of its Capacity and Refill. That of a Smooth is one permit at
//     least, and while it is full, it grants a request of any size.
//   - A request that costs more than can be granted at once is Closed. If the share of another policy is
//     less than one permit, all requests are.
//   - Permits taken in Redis do not count here, and permits taken here do not count in Redis. If
//     Redis fails again soon, the local permits still count.
//   - Each limiter of a [Join] has the bucket of its own name. A request passes if all have its
//     permits; else none is taken.
//   - At most 131,072 buckets exist at once, one for each policy of a key, in some 24 MB. Requests
//     that need more are Closed.
//
// Local needs the names and the policies of all limiters. It takes those with which a limiter was
// opened, by [New] or as [github.com/rratelimiter/rratelimiter.InitialRate]. Without them, or if the
// key is unknown, requests are Closed.
//
// Local panics if the share is not above 0 and at most 1.
func Local(share float64) FailureMode {
	if !(share > 0 && share <= 1) {
		panic(fmt.Sprintf("limit: Local: the share is out of range: %v: pass one above 0 and at most 1", share))
	}
	return FailureMode(share)
}
