package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Middleware limits the requests to a handler: each takes its permits of the limiter that choose gives for it, and
// where they are not to be had it does not get to the handler. A request for which choose gives nil passes, and
// nothing is asked for it; one for which it gives an error is decided as the [FailureMode] says, or refused where
// the error is [ErrInvalidRequest]. [All] and [Each] are ready-made choices.
//
// The handler gets the ResponseWriter as it is, so that whatever it can do it still can, and finds the [Outcome] in the context
// of its request with [FromContext].
//
// Of several around a handler each takes its permits before the next is asked, and keeps them if that denies. [Each] with several
// policies, or a [github.com/rratelimiter/rratelimiter/limit.Join], takes of all or of none. Draft11 headers show the policies of
// all; ThreeHeaders and XRateLimit show the one that denied, or the one with the fewest permits left.
//
// Each Middleware sees for itself whether Redis is up, for all handlers around which its result is put. It panics where choose is
// nil.
func Middleware(choose func(*http.Request) (Limiter, error), opts ...Option) func(http.Handler) http.Handler {
	if choose == nil {
		panic("httplimit: Middleware: nothing chooses the limiter of a request")
	}
	s, guard := newSettings(opts, DefaultMaxWaiting)
	return func(next http.Handler) http.Handler {
		return &middleware{s, guard, choose, next}
	}
}

type middleware struct {
	*settings
	guard  *guard.Guard
	choose func(*http.Request) (Limiter, error)
	next   http.Handler
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, known, limited, err := m.request(r, m.choose)
	if !limited {
		m.next.ServeHTTP(w, r)
		return
	}
	var a guard.Answer
	switch {
	case err != nil && !m.invalidFails && errors.Is(err, ErrInvalidRequest):
		a = guard.Invalid(err)
	case err != nil:
		a = m.guard.Fail(err)
	default:
		if m.shadow {
			q.Wait = 0
		}
		a = m.guard.Ask(r.Context(), q)
	}
	o := m.outcome(q, a, known)
	if m.report != nil {
		m.report(r, o)
	}
	passes := m.shadow || a.Result == guard.Granted || a.Result == guard.FailedOpen
	document := !passes && m.refuse == nil
	if !m.shadow {
		m.setHeaders(w.Header(), &o, document)
	}
	if document {
		writeRefusal(w, &o)
		return
	}
	v := guard.NewVisit(r.Context(), m.guard, q, a, o)
	if !passes {
		m.refuse.ServeHTTP(w, r.WithContext(v))
		return
	}
	defer func() { // also where the handler panics
		if err := v.End(); err != nil && m.unsettled != nil {
			m.unsettled(r, err)
		}
	}()
	m.next.ServeHTTP(w, r.WithContext(v))
}

// request makes what is asked for a request, or says that nothing is.
func (s *settings) request(r *http.Request, choose func(*http.Request) (Limiter, error)) (q guard.Request, k *known, limited bool, err error) {
	if s.skip != nil && s.skip(r) {
		return q, nil, false, nil
	}
	limiter, err := choose(r)
	if err != nil {
		return q, nil, true, err
	}
	if guard.IsNil(limiter) {
		return q, nil, false, nil
	}
	k = s.known
	switch l := limiter.(type) {
	case *one:
		k = l.Known
	case *described:
		if limiter, k = l.Limiter, l.known; guard.IsNil(limiter) {
			return q, nil, false, nil
		}
	}
	q = guard.Request{Limiter: limiter, Policies: k.Policies, Permits: 1, Wait: s.wait}
	if s.cost != nil {
		if q.Permits = s.cost(r); q.Permits == 0 {
			return q, nil, false, nil
		}
		if q.Permits < 0 {
			if r.ContentLength < 0 {
				return q, k, true, fmt.Errorf("httplimit: Cost: %w", ErrLengthRequired)
			}
			return q, k, true, guard.Invalidf("httplimit: Cost is %d, want 0 or more", q.Permits)
		}
	}
	return q, k, true, nil
}

// outcome returns the Outcome of a guard's answer.
func (s *settings) outcome(q guard.Request, a guard.Answer, k *known) Outcome {
	o := Outcome{
		Result: Result(a.Result), Shadow: s.shadow, Local: a.Local, Cost: q.Permits, Decision: a.Decision, Each: a.Each, Err: a.Err, known: k, waited: a.Waited,
	}
	if q.Limiter != nil {
		o.Limiter = guard.NameOf(q.Limiter)
	}
	if a.Invalid {
		o.invalid = &badRequest
		if errors.Is(a.Err, ErrLengthRequired) {
			o.invalid = &lengthRequired
		}
	}
	return o
}
