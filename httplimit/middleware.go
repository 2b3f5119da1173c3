package httplimit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Middleware limits the requests to a handler: each request takes its permits from the limiter that
// choose returns. A request that is denied does not reach the handler. If choose returns nil, the
// request passes without a call to Redis. If choose returns an error, the [limit.FailureMode] decides,
// but [limit.ErrInvalidRequest] is always refused. [All] and [Each] are ready-made choosers.
//
// The handler finds the [limit.Outcome] in the context of its request with [FromContext]. The headers are
// added to its response when that begins. Its ResponseWriter can flush, be hijacked, and has Unwrap
// for [http.ResponseController].
//
// If several Middlewares wrap a handler, each takes its permits before the next one is called, and
// keeps them if that one denies. [Each] with several policies, or a
// [github.com/rratelimiter/rratelimiter/limit.Join], takes from all or from none. Draft11 headers
// show the policies of all Middlewares, with a number behind a name that an inner one has.
// ThreeHeaders and XRateLimit show the one that denied, or the one with the fewest permits left.
// Headers of the handler count in the same way, for instance those that a proxy copies.
//
// A permit of a [limit.InFlight] is held until the handler has returned. If the grant left no permit free, the response
// ends when Redis has the permit back, and a [Deadline] later at the latest. So a client that has its response can
// send the next request. Otherwise it is returned in the background. The end of a connection that was hijacked is
// not seen: use a [limit.Taken] there.
//
// Each call of Middleware tracks on its own whether Redis is up, for all handlers that its result
// wraps. It panics if choose is nil.
func Middleware(choose func(*http.Request) (Limiter, error), opts ...Option) func(http.Handler) http.Handler {
	if choose == nil {
		panic("httplimit: Middleware: choose is nil: pass All, Each or a function that returns a Limiter")
	}
	s := newSettings(choose, opts)
	g := gate.NewGate("httplimit: Middleware", s.Options)
	return func(next http.Handler) http.Handler {
		return &middleware{s, g, next}
	}
}

type middleware struct {
	*settings
	gate *gate.Gate[*http.Request]
	next http.Handler
}

// visit is a request that is limited.
type visit = gate.Visit[*http.Request]

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := m.gate.Admit(r)
	if v == nil {
		m.next.ServeHTTP(w, r)
		return
	}
	inside, ended := v.Request, 0
	defer func() { v.End(ended) }() // also if the handler or a callback panics
	defer func() {                  // an outer handler may read the pattern, and http.Server removes the files of the form
		r.Pattern, r.MultipartForm = inside.Pattern, inside.MultipartForm
	}()
	if !v.Answer.Passes() {
		dropContent(w)
		setHeaders(w.Header(), v, 0)
		if m.refuse == nil {
			writeRefusal(w, v)
			return
		}
		inside = inside.WithContext(v.Context())
		m.refuse.ServeHTTP(w, inside)
		return
	}
	inside = inside.WithContext(v.Context())
	later, returned := &writer{ResponseWriter: w, visit: v}, false
	// Without an effect on the response, the handler gets the server's own writer.
	for one := v; one != nil; one = one.Before {
		if !one.Answer.Shadow && HeaderStyle(one.Settings.Headers) != NoHeaders || one.Settings.Refunds != nil {
			w = later
		}
	}
	defer func() {
		if later.begun(http.StatusOK); returned {
			ended = later.status
		}
	}()
	m.next.ServeHTTP(w, inside)
	returned = true
}

// writer is the ResponseWriter of a handler. It adds the headers of a Middleware when the response
// begins, so that they can fit those that the handler has set, or a proxy has copied from upstream.
type writer struct {
	http.ResponseWriter
	visit  *visit // nil if the response has begun
	status int    // of the response; 0 if it is unknown
}

func (w *writer) begun(status int) {
	final := status >= http.StatusOK || status == http.StatusSwitchingProtocols // others are informational
	if v := w.visit; v != nil && final {
		w.visit, w.status = nil, status
		setHeaders(w.Header(), v, status)
	}
}

func (w *writer) WriteHeader(status int) {
	w.begun(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.begun(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets the server send files without a copy in memory.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.begun(http.StatusOK)
	return io.Copy(w.ResponseWriter, r)
}

// Flush implements [http.Flusher] for handlers without an [http.ResponseController].
func (w *writer) Flush() { _ = w.FlushError() }

func (w *writer) FlushError() error {
	w.begun(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack adds the headers, since a handler that writes its own response may send them, as a
// ReverseProxy does for a web socket. The status of such a response is unknown, and so is that of one for
// which Hijack fails, whose headers are set before its status.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begun(http.StatusOK)
	w.status = 0
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// problem is a problem document (RFC 9457).
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"` // the names of policies
}

// ianaTypes is the registry of problem types.
const ianaTypes = "https://iana.org/assignments/http-problem-types#"

// contentFields describe the content of a response, or let caches store it. Those for some caches (RFC 9213)
// end in cacheField.
var contentFields = []string{
	"Content-Length", "Content-Range", "Content-Disposition", "Content-Digest", "Repr-Digest", "Digest", "Etag",
	"Last-Modified", "Expires", "Surrogate-Control", "X-Accel-Expires", "Trailer",
}

const cacheField = "Cache-Control"

// dropContent removes the headers that an outer handler has set for the content of another response, as
// the errors of [http.ServeContent] do. No cache may store a refusal.
func dropContent(w http.ResponseWriter) {
	h := w.Header()
	for name := range h {
		if strings.HasSuffix(name, cacheField) || strings.HasPrefix(name, http.TrailerPrefix) ||
			slices.Contains(contentFields, name) {
			delete(h, name)
		}
	}
	h[cacheField] = []string{"no-store"}
	for own, ok := w.(*writer); ok; own, ok = w.(*writer) {
		w = own.ResponseWriter
	}
	// The writer of another package may compress what is written, as that of gorilla's CompressHandler.
	if t := reflect.TypeOf(w); t.Kind() == reflect.Pointer && strings.HasPrefix(t.Elem().PkgPath(), "net/http") {
		delete(h, "Content-Encoding")
	}
}

// writeRefusal answers in place of the handler. The headers with the limits are set before.
func writeRefusal(w http.ResponseWriter, v *visit) {
	p := problem{Type: ianaTypes + "temporary-reduced-capacity", Title: "Requests cannot be admitted at the moment.",
		Status: http.StatusServiceUnavailable}
	blank := func(status int) problem {
		return problem{Type: "about:blank", Title: http.StatusText(status), Status: status}
	}
	switch v.Answer.Result {
	case limit.Invalid:
		p = blank(http.StatusBadRequest)
		if errors.Is(v.Answer.Err, ErrLengthRequired) {
			p = blank(http.StatusLengthRequired)
		}
		if field := identity.LackOf(v.Answer.Err); field != "" {
			p.Detail = "The request needs one value of the " + field + "."
		}
	case limit.Rejected:
		status := cmp.Or(v.Settings.Denied, http.StatusTooManyRequests)
		if p = blank(status); status == http.StatusTooManyRequests {
			p = problem{ianaTypes + "quota-exceeded", "The request is over its limit.", status, "", v.Answer.Violated}
		}
	}
	w.Header()[typeField] = []string{"application/problem+json"}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error means that the client has left
}

// ErrLengthRequired is a [limit.ErrInvalidRequest] that is answered with 411 Length Required: the cost
// depends on a body of unknown length.
var ErrLengthRequired = fmt.Errorf("the length of the request's body is unknown: %w", limit.ErrInvalidRequest)

// FromContext returns the Outcome of a request, for its handler or the handler of [Refuse]. It
// returns false if the request was not limited. If several Middlewares wrap a handler, it is the
// Outcome of the innermost.
func FromContext(ctx context.Context) (limit.Outcome, bool) {
	return gate.OutcomeOf[*http.Request](ctx)
}

// Settle sets the final cost of a request. Its handler calls it with the request's context. After
// the handler has returned, the Middleware refunds or charges the difference, even if the context
// has ended. For example, a successful log-in can cost 0, and a download its size in bytes. The last
// Settle of a request counts. If the handler has written little, the client waits for that call
// too, for at most a [Deadline].
//
// A refund returns the permits of this request, while they are taken. When its window is over, or a
// bucket has refilled, they have returned, and Settle frees none that others have taken since.
// Permits of a prefetch are refunded to Redis in the same way, with one call.
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
	return gate.SettleIn[*http.Request](ctx, "httplimit", cost)
}
