package httplimit

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
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
// Each call of Middleware tracks on its own whether Redis is up, for all handlers that its result
// wraps. It panics if choose is nil.
func Middleware(choose func(*http.Request) (Limiter, error), opts ...Option) func(http.Handler) http.Handler {
	if choose == nil {
		panic("httplimit: Middleware: choose is nil: pass All, Each or a function that returns a Limiter")
	}
	s := newSettings(opts)
	s.check("httplimit: Middleware", choose)
	g := s.Incoming()
	return func(next http.Handler) http.Handler {
		return &middleware{s, g, choose, next}
	}
}

type middleware struct {
	*settings
	gate   *guard.Gate
	choose func(*http.Request) (Limiter, error)
	next   http.Handler
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, d, limited, err := m.request(r, m.choose)
	if !limited {
		m.next.ServeHTTP(w, r)
		return
	}
	a := m.gate.Decide(r.Context(), q, err)
	o := m.outcome(q, a, d)
	if m.report != nil {
		m.report(r, o.Outcome)
	}
	passes := m.Shadow || guard.Passes(a.Result)
	if !passes {
		m.setHeaders(w.Header(), &o, 0, m.refuse == nil)
	}
	if !passes && m.refuse == nil {
		writeRefusal(w, &o.Outcome)
		return
	}
	v := guard.NewVisit[guard.HTTP](r.Context(), m.gate.Guard, q, a, o.Outcome)
	if !passes {
		m.refuse.ServeHTTP(w, r.WithContext(v))
		return
	}
	later := &writer{ResponseWriter: w}
	if !m.Shadow && m.style != NoHeaders {
		later.begin = func(status int) { m.setHeaders(later.Header(), &o, status, false) }
		w = later
	}
	defer func() { // also if the handler panics
		later.begun(http.StatusOK)
		if err := v.End(); err != nil && m.unsettled != nil {
			m.unsettled(r, err)
		}
	}()
	m.next.ServeHTTP(w, r.WithContext(v))
}

// request returns the guard's request for r. It reports in limited whether anything limits r.
func (s *settings) request(r *http.Request, choose func(*http.Request) (Limiter, error)) (
	q guard.Request, d *guard.Description, limited bool, err error,
) {
	if s.skip != nil && s.skip(r) {
		return q, nil, false, nil
	}
	limiter, err := choose(r)
	if err != nil {
		return q, nil, true, err
	}
	if limiter, d = guard.Unwrap(limiter, s.policies); guard.IsNil(limiter) {
		return q, nil, false, nil
	}
	q = guard.Request{Limiter: limiter, Policies: d.Policies, Permits: 1}
	if s.cost != nil {
		if q.Permits = s.cost(r); q.Permits == 0 {
			return q, nil, false, nil
		}
		if q.Permits < 0 {
			if r.ContentLength < 0 {
				return q, d, true, fmt.Errorf("httplimit: Cost: %w", ErrLengthRequired)
			}
			return q, d, true, guard.Invalidf("httplimit: Cost: the cost is negative: %d", q.Permits)
		}
	}
	return q, d, true, nil
}

// decided is the Outcome of a request, and what it was made of.
type decided struct {
	limit.Outcome
	answer   guard.Answer
	policies *guard.Description
	at       time.Time
}

func (s *settings) outcome(q guard.Request, a guard.Answer, d *guard.Description) decided {
	return decided{limit.Outcome{
		Result: a.Result, Shadow: s.Shadow, Local: a.Local, Limiter: guard.NameOf(q.Limiter), Cost: q.Permits,
		Decision: a.Decision, Each: a.Each, Violated: d.Names(d.Violated(a, q.Permits)), Err: a.Err,
	}, a, d, time.Now()}
}
