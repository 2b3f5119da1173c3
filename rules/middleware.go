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

// Middleware limits the requests to a handler by the rules. Each request is decided by the file as it was when the request came, by
// all of it. The options are those of httplimit.Middleware, for all rules: headers, reports, refusals, what is told of Redis. What a
// rule says itself goes before them.
//
// A request that no rule matches passes. In the file's "match: first" the first rule that matches decides alone, also where it
// lets the request pass for its skip. In "match: all" every one does. Those whose limiters share a cluster slot (on a single Redis all
// do), and which cost the same and fail in the same way, take their permits together or take none; else one rule decides after
// another, bans first, and where one refuses what others took before is given back. So it is between the limits of one rule, where
// one is a limiter of Redisson's in another slot.
//
// [Matched] tells a Report, or the handler, which rules decided.
func (s *Set) Middleware(client *rratelimiter.Client, opts ...httplimit.Option) func(http.Handler) http.Handler {
	if client == nil {
		panic("rules: Middleware: there is no client")
	}
	d := &httpDoors{set: s, opener: newOpener(client, httpDoor)}
	d.open = func(s settings) func(http.Handler) http.Handler {
		shared, _ := guard.ShareHTTP(d.sharing(s)).(httplimit.Option)
		return httplimit.Middleware(limiterOf, slices.Concat(opts, s.options(), []httplimit.Option{shared})...)
	}
	return func(next http.Handler) http.Handler { return &middleware{d, next} }
}

// httpDoors is the doors of HTTP, Middlewares of httplimit.
type httpDoors = doors[func(http.Handler) http.Handler]

type middleware struct {
	*httpDoors
	next http.Handler
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	steps := m.now().steps(m.opener, r)
	if len(steps) == 0 {
		m.next.ServeHTTP(w, r)
		return
	}
	c := &visit{Context: r.Context(), doors: m.httpDoors, steps: steps, next: m.next}
	c.decide(w, r.WithContext(c))
}

// visit is a request on its way through the steps that decide it: the context of all of them.
type visit struct {
	context.Context
	doors  *httpDoors
	steps  []step
	next   http.Handler
	passed []context.Context // of the steps that let it pass, until the handler is reached
	served bool
}

type visitKey struct{}

func (c *visit) Value(key any) any {
	if key == (visitKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// step is the one that decides now.
func stepOf(ctx context.Context) *step {
	c := ctx.Value(visitKey{}).(*visit) //nolint:errcheck,forcetypeassert // only decide calls who asks
	return &c.steps[len(c.passed)]
}

func limiterOf(r *http.Request) (httplimit.Limiter, error) {
	s := stepOf(r.Context())
	return s.limiter, s.err
}

func costOf(r *http.Request) int64 { return stepOf(r.Context()).cost }

// decide lets the next step decide.
func (c *visit) decide(w http.ResponseWriter, r *http.Request) {
	c.doors.of(c.steps[len(c.passed)].settings)(http.HandlerFunc(c.granted)).ServeHTTP(w, r)
}

// granted goes on behind a step that lets the request pass. Where a later one does not, what this one took is given back.
func (c *visit) granted(w http.ResponseWriter, r *http.Request) {
	if c.passed = append(c.passed, r.Context()); len(c.passed) == len(c.steps) {
		c.served = true
		c.next.ServeHTTP(w, r)
		return
	}
	defer func() {
		if !c.served {
			// Nothing but a limiter that cannot give back fails here, and those of this package can.
			_ = httplimit.Settle(r.Context(), 0)
		}
	}()
	c.decide(w, r)
}

// Matched is the names of the rules that decide a request, in their order, for its handler, or for what the options of
// [Set.Middleware] or [Set.UnaryServerInterceptor] were given, with the context of the request. It is nil where no rule does.
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

// Settle is httplimit.Settle, or grpclimit.Settle, for all rules that let a request pass: it says what the request has cost in the end.
// Those functions settle with the last rule alone.
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
