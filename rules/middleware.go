package rules

import (
	"net/http"
	"slices"

	"github.com/rratelimiter/rratelimiter"
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
	m := s.middlewares(client, opts...)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveHTTP(m.now(), w, r, next) })
	}
}

// httpMiddleware is a middleware of httplimit.
type httpMiddleware = func(http.Handler) http.Handler

func (s *Set) middlewares(client *rratelimiter.Client, opts ...httplimit.Option) *middlewares[httpMiddleware] {
	return newMiddlewares("Middleware", s, client, func(s settings, change func(*guard.Settings)) httpMiddleware {
		changed, _ := guard.HTTPOption(change).(httplimit.Option)
		all := append(slices.Clip(opts), changed)
		if s.costs {
			all = append(all, httplimit.Cost(costOf))
		}
		return httplimit.Middleware(limiterOf, all...)
	})
}

// serveHTTP passes a request through its joint acquires.
func serveHTTP(current *version[httpMiddleware], w http.ResponseWriter, r *http.Request, next http.Handler) {
	v := &visit{acquires: current.file.acquiresOfHTTP(current.opener, r), settle: httplimit.Settle}
	if len(v.acquires) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	var admitted http.HandlerFunc
	decide := func(w http.ResponseWriter, r *http.Request) {
		c := v.next(r.Context())
		current.of(c.settings)(admitted).ServeHTTP(w, r.WithContext(c))
	}
	admitted = func(w http.ResponseWriter, r *http.Request) {
		if v.admit(r.Context()) {
			next.ServeHTTP(w, r)
			return
		}
		defer v.release(r.Context())
		decide(w, r)
	}
	decide(w, r)
}

func limiterOf(r *http.Request) (httplimit.Limiter, error) {
	c := acquireOf(r.Context())
	return c.limiter, c.err
}

func costOf(r *http.Request) int64 { return acquireOf(r.Context()).cost }
