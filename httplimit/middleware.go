package httplimit

import (
	"net/http"

	"github.com/rratelimiter/rratelimiter/internal/guard"
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
// A permit of a [limit.InFlight] is held until the handler has returned. The Middleware returns it in the
// background.
//
// Each call of Middleware tracks on its own whether Redis is up, for all handlers that its result
// wraps. It panics if choose is nil.
func Middleware(choose func(*http.Request) (Limiter, error), opts ...Option) func(http.Handler) http.Handler {
	if choose == nil {
		panic("httplimit: Middleware: choose is nil: pass All, Each or a function that returns a Limiter")
	}
	s := newSettings(choose, opts)
	g := guard.NewGate("httplimit: Middleware", s.Settings, s.Hooks, false)
	return func(next http.Handler) http.Handler {
		return &middleware{s, g, next}
	}
}

type middleware struct {
	*settings
	gate *guard.Gate[*http.Request]
	next http.Handler
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := m.gate.Decide(r.Context(), r)
	if d == nil {
		m.next.ServeHTTP(w, r)
		return
	}
	v := m.gate.Visit(r.Context(), d)
	if !d.Passes() {
		dropContent(w)
		if m.setHeaders(w.Header(), d, 0, m.refuse == nil); m.refuse != nil {
			m.refuse.ServeHTTP(w, r.WithContext(v))
		} else {
			writeRefusal(w, d)
		}
		return
	}
	later, sent := &writer{ResponseWriter: w}, 0
	if shown := !m.Shadow && m.style != NoHeaders; shown || m.Refunds != nil {
		later.begin = func(status int) {
			if sent = status; shown {
				m.setHeaders(later.Header(), d, status, false)
			}
		}
		w = later
	}
	returned := false
	defer func() { // also if the handler panics
		if later.begun(http.StatusOK); !returned {
			sent = 0
		}
		v.End(r, sent)
	}()
	m.next.ServeHTTP(w, r.WithContext(v))
	returned = true
}
