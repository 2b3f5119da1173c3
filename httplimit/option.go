package httplimit

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Option is a setting of [Middleware] or [Transport]. Some options apply to only one of them.
type Option interface{ apply(s *settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// common returns an option of the settings that httplimit and grpclimit have in common.
func common(change gate.Setting) Option {
	return option(func(s *settings) { change(&s.Settings) })
}

type settings struct {
	refuse  http.Handler
	pauseOn []func(*http.Response) (time.Duration, bool)
	gate.Options[*http.Request]
}

func newSettings(choose func(*http.Request) (Limiter, error), opts []Option) *settings {
	s := new(settings)
	s.Settings, s.Chooser = gate.NewSettings(), gate.Func[*http.Request](choose)
	gate.Apply(&s.Options, opts, func(o Option) { o.apply(s) })
	return s
}

// HeaderStyle is the set of headers that report limits to clients. The zero value is Draft11. All
// styles include Retry-After.
type HeaderStyle int

// The styles. Seconds are rounded up, but for t of Draft11, which is rounded down.
const (
	// Draft11 sets RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11, with
	// an item for each policy.
	Draft11 HeaderStyle = iota
	// ThreeHeaders sets RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset in seconds, as
	// Envoy and draft 06 do.
	ThreeHeaders
	// XRateLimit sets X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset as Unix time,
	// as GitHub does.
	XRateLimit
	// NoHeaders sets none of them.
	NoHeaders
)

// Headers sets the headers with which a Middleware reports limits. It panics if the style is not
// one of this package.
func Headers(style HeaderStyle) Option {
	if style < Draft11 || style > NoHeaders {
		panic(fmt.Sprintf("httplimit: Headers: the style is unknown: %d: pass a constant of this package", int(style)))
	}
	return common(func(s *gate.Settings) { s.Headers = int(style) })
}

// Cost sets the cost of a request, 1 by default. A request of cost 0 passes without a call to
// Redis. A cost below 0 is [limit.ErrInvalidRequest], or [ErrLengthRequired] if the request has a body of
// unknown length. A cost above the largest possible grant is always denied, without a Retry-After.
func Cost(cost func(*http.Request) int64) Option {
	if cost == nil {
		return nil
	}
	return option(func(s *settings) {
		s.Cost = func(r *http.Request) (int64, error) {
			permits := cost(r)
			switch {
			case permits >= 0:
				return permits, nil
			case r.ContentLength < 0:
				return permits, fmt.Errorf("httplimit: Cost: %w", ErrLengthRequired)
			}
			return permits, identity.Invalidf("httplimit: Cost: the cost is negative: %d", permits)
		}
	})
}

// Skip lets the requests pass for which skip returns true, without a call to Redis: health checks,
// methods, or ranges of addresses (with [Address.Client]).
func Skip(skip func(*http.Request) bool) Option {
	return option(func(s *settings) { s.Skip = skip })
}

// Wait lets a request wait for at most d instead of being denied, if its permits are free by then.
// Requests that wait for one limiter are served in order. A later request that finds a free permit
// does not wait. A Transport waits as long as the context of a request lasts by default, and with
// Wait for at most d. [MaxWaiting] bounds the number of waiters.
func Wait(d time.Duration) Option { return common(gate.Wait("httplimit", d)) }

// MaxWaiting bounds the number of requests that wait at once in a Middleware or Transport. A
// further request is denied at once, with the same Retry-After as without [Wait]. A Middleware has
// a bound of 1,000 by default. A Transport has no bound by default, since its callers choose to
// wait. MaxWaiting panics if n is below 1.
func MaxWaiting(n int) Option { return common(gate.MaxWaiting("httplimit", n)) }

// Spread adds a random part of less than d to the Retry-After of each request that a Middleware
// refuses. So clients that were refused at the same time do not return at the same time. The sum is
// rounded up to seconds and never below the exact time. It is also the Reset of ThreeHeaders and
// XRateLimit in a denial. The parameter t of Draft11 stays exact, since it describes the limit and
// not the retry. A refusal without a Retry-After stays without one. There is no random part by
// default, or if d is 0. Spread panics if d is below 0.
func Spread(d time.Duration) Option { return common(gate.SpreadBy("httplimit", d)) }

// Shadow lets all requests pass, and sets no headers. Requests still take permits and are decided,
// for [Report] and the handler.
func Shadow() Option { return common(func(s *gate.Settings) { s.Shadow = true }) }

// Report sets a callback for every decision. It runs in the goroutine of the request, before the
// request proceeds.
func Report(report func(*http.Request, limit.Outcome)) Option {
	return option(func(s *settings) { s.Report = report })
}

// Refuse sets the handler of refused requests. It finds the [limit.Outcome] in the request's context.
// The headers with the limits and "Cache-Control: no-store" are set, and those of an outer handler for
// the content of another response are removed. The default handler writes a problem document (RFC 9457):
// 429 Too Many Requests with the policies that denied, or 503 Service Unavailable for a failure. It
// shows no errors.
func Refuse(handler http.Handler) Option {
	return option(func(s *settings) { s.refuse = handler })
}

// OnSettleError sets a callback for each [Settle] whose call to Redis failed, or was not made in an outage. Unless only
// the reply was lost, it has no effect: permits to refund stay taken, and permits to charge are not charged.
//
// The callback also gets [limit.ErrLost] for a request whose place of a [limit.InFlight] is lost: its lease has ended
// before it could be renewed or returned.
func OnSettleError(failed func(*http.Request, error)) Option {
	return option(func(s *settings) { s.Unsettled = failed })
}

// OnFailure sets the failure mode.
//
// An outage is of a node of Redis. It begins when a call to that node has failed and none has been
// answered for the time of the Deadline. A grant and a denial are answers. It ends with a call to that
// node that could have granted, mostly one in the background. From its begin to its end, the mode
// decides calls to that node at once. Calls to other nodes are decided by those.
//
// A mistake of the program, such as a limiter without a rate, is no outage, and lets no request pass.
// The page [Failure modes] has the details.
//
// [Failure modes]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md#failure-modes
func OnFailure(mode limit.FailureMode) Option {
	return common(gate.OnFailure("httplimit", mode))
}

// Deadline sets the time that Redis has to answer for a request, 500 ms by default. An outage costs it
// once, not once for each request, see [OnFailure]. A wait for permits is not part of it. A [Settle]
// is another call with the same deadline.
func Deadline(d time.Duration) Option { return common(gate.Deadline("httplimit", d)) }

// OnRedisChange sets a callback for each outage of a node of Redis, see [OnFailure]. up is false with
// the error that began it, and true at its end. err is then nil if the node answers, and reports if its
// slots have moved to another node instead. node is the address of the node, empty if it is
// unknown. Calls come in order, one at a time. The request that observes an outage calls back itself
// and waits for it. The end of an outage is mostly observed in the background, where a panic of the
// callback is dropped.
func OnRedisChange(changed func(node string, up bool, err error)) Option {
	return common(func(s *gate.Settings) { s.Changed = changed })
}
