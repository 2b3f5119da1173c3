package rules

import (
	"net/http"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/rules/internal/ruleset"
)

// Middleware limits the requests to a handler by the rules. Each request is decided by the file at
// the time of its arrival. The options are those of httplimit.Middleware, for all rules: headers,
// reports, refusals and callbacks. The settings of the file take precedence.
//
// A request that no rule matches passes. With the file's "match: first", only the first rule that
// matches decides, even if its skip lets the request pass. With "match: all", every rule that
// matches decides:
//
//   - Rules that follow one another take their permits atomically, all or none, if they have equal
//     costs and settings. Their limiters must share a cluster slot and have at most ten policies. On
//     a single Redis, all limiters share a slot.
//   - Other rules decide one after another, bans first. If one denies, the permits that earlier
//     rules took are released.
//   - The same holds for the limits of one rule, if one is a Redisson limiter in another slot.
//
// [Matched] returns the rules that decided, for a Report or the handler. A ban answers 403 Forbidden,
// unless the rule has another status.
func (s *Set) Middleware(client *rratelimiter.Client, opts ...httplimit.Option) func(http.Handler) http.Handler {
	m := s.middlewares("rules: Middleware", client, nil, opts)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			current := m.Now()
			serveHTTP(current, current.File().HTTP(r), w, r, next)
		})
	}
}

type httpMiddleware = func(http.Handler) http.Handler

// fileOption is an option with the settings of a file.
type fileOption struct {
	httplimit.Option
	guard.Change
}

// middlewares returns the middlewares of a set. last is an option that takes precedence over the file.
func (s *Set) middlewares(caller string, client *rratelimiter.Client, last httplimit.Option,
	opts []httplimit.Option) *ruleset.Middlewares[httpMiddleware] {
	open := func(change func(*guard.Settings), costs bool, headers httplimit.Option) httpMiddleware {
		all := append(slices.Clip(opts), fileOption{Change: change}, headers, last)
		if costs {
			all = append(all, httplimit.Cost(costOf))
		}
		return httplimit.Middleware(limiterOf, all...)
	}
	return ruleset.NewMiddlewares(caller, s.inside(), client, open)
}

// serveHTTP passes a request through the limits of the rules that match what they read of it.
func serveHTTP(current *ruleset.Version[httpMiddleware], read *ruleset.Request, w http.ResponseWriter, r *http.Request,
	next http.Handler) {
	v := current.Visit(read, httplimit.Settle)
	if v == nil {
		next.ServeHTTP(w, r)
		return
	}
	var admitted http.HandlerFunc
	decide := func(w http.ResponseWriter, r *http.Request) {
		ctx, middleware := current.Next(r.Context(), v)
		middleware(admitted).ServeHTTP(w, r.WithContext(ctx))
	}
	admitted = func(w http.ResponseWriter, r *http.Request) {
		if v.Admit(r.Context()) {
			next.ServeHTTP(w, r)
			return
		}
		defer v.Release(r.Context())
		decide(w, r)
	}
	decide(w, r)
}

func limiterOf(r *http.Request) (httplimit.Limiter, error) { return ruleset.LimiterOf(r.Context()) }

func costOf(r *http.Request) int64 { return ruleset.CostOf(r.Context()) }
