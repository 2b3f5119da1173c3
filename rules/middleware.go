package rules

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Middleware limits the requests to a handler by the rules. Each request is decided by the file at
// the time of its arrival. The options are those of httplimit.Middleware, for all rules: headers,
// reports, refusals and callbacks. The settings of a rule take precedence.
//
// A request that no rule matches passes. With the file's "match: first", only the first rule that
// matches decides, even if its skip lets the request pass. With "match: all", every rule that
// matches decides:
//
//   - Rules take their permits atomically, all or none, if their limiters share a cluster slot, and
//     they have the same cost and failure settings. On a single Redis, all limiters share a slot.
//   - Other rules decide one after another, bans first. If one denies, the permits that earlier
//     rules took are released.
//   - The same holds for the limits of one rule, if one is a Redisson limiter in another slot.
//
// [Matched] returns the rules that decided, for a Report or the handler.
func (s *Set) Middleware(client *rratelimiter.Client, opts ...httplimit.Option) func(http.Handler) http.Handler {
	if client == nil {
		panic("rules: Middleware: the client is nil")
	}
	d := &httpGuards{set: s, opener: newOpener(client, protocolHTTP)}
	d.open = func(s settings) func(http.Handler) http.Handler {
		shared, _ := guard.ShareHTTP(d.sharing(s)).(httplimit.Option)
		return httplimit.Middleware(limiterOf, slices.Concat(opts, s.options(), []httplimit.Option{shared})...)
	}
	return func(next http.Handler) http.Handler { return &middleware{d, next} }
}

// httpGuards are the Middlewares of httplimit.
type httpGuards = guards[func(http.Handler) http.Handler]

type middleware struct {
	*httpGuards
	next http.Handler
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	steps := m.now().steps(m.opener, r)
	if len(steps) == 0 {
		m.next.ServeHTTP(w, r)
		return
	}
	c := &visit{Context: r.Context(), guards: m.httpGuards, steps: steps, next: m.next}
	c.decide(w, r.WithContext(c))
}

// visit is a request that passes through its steps. It is the context of all of them.
type visit struct {
	context.Context
	guards *httpGuards
	steps  []step
	next   http.Handler
	passed []context.Context // of the steps that admitted it
	served bool
}

type visitKey struct{}

func (c *visit) Value(key any) any {
	if key == (visitKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// stepOf returns the step that decides now.
func stepOf(ctx context.Context) *step {
	c := ctx.Value(visitKey{}).(*visit) //nolint:errcheck,forcetypeassert // only called in decide
	return &c.steps[len(c.passed)]
}

func limiterOf(r *http.Request) (httplimit.Limiter, error) {
	s := stepOf(r.Context())
	return s.limiter, s.err
}

func costOf(r *http.Request) int64 { return stepOf(r.Context()).cost }

// decide runs the next step.
func (c *visit) decide(w http.ResponseWriter, r *http.Request) {
	c.guards.of(c.steps[len(c.passed)].settings)(http.HandlerFunc(c.granted)).ServeHTTP(w, r)
}

// granted continues after a step that admitted the request. If a later step denies it, the permits
// of this one are released.
func (c *visit) granted(w http.ResponseWriter, r *http.Request) {
	if c.passed = append(c.passed, r.Context()); len(c.passed) == len(c.steps) {
		c.served = true
		c.next.ServeHTTP(w, r)
		return
	}
	defer func() {
		if !c.served {
			// Only a limiter without Release fails here, and the limiters of this package have it.
			_ = httplimit.Settle(r.Context(), 0)
		}
	}()
	c.decide(w, r)
}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
// Call it with the context of the request, in its handler or in a callback of an option of
// [Set.Middleware] or [Set.UnaryServerInterceptor].
func Matched(ctx context.Context) []string {
	var steps []step
	if c, ok := ctx.Value(visitKey{}).(*visit); ok {
		steps = c.steps
	} else if s := rpcStepOf(ctx); s != nil {
		steps = s.visit.steps
	}
	var names []string
	for i := range steps {
		names = append(names, steps[i].rules...)
	}
	return names
}

// Settle sets the final cost of a request for all rules that admitted it. httplimit.Settle and
// grpclimit.Settle settle only with the last rule.
func Settle(ctx context.Context, cost int64) error {
	var failed []error
	if c, ok := ctx.Value(visitKey{}).(*visit); ok && c.served {
		for _, passed := range c.passed {
			failed = append(failed, httplimit.Settle(passed, cost))
		}
	} else if s := rpcStepOf(ctx); s != nil && s.visit.served && !s.visit.denied.Load() {
		for _, passed := range s.visit.passed {
			failed = append(failed, grpclimit.Settle(passed, cost))
		}
	}
	return errors.Join(failed...)
}
