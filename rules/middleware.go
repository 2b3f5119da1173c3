package rules

import (
	"net/http"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
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
	return s.middleware("rules: Middleware", client, (*ruleset.File).HTTP, opts)
}

// fileOption is an option with the settings of a file.
type fileOption struct {
	httplimit.Option
	gate.Change[*http.Request]
}

// middleware returns the middleware that decides by what read reads of a request.
func (s *Set) middleware(caller string, client *rratelimiter.Client,
	read func(*ruleset.File, *http.Request) *ruleset.Request, opts []httplimit.Option) func(http.Handler) http.Handler {
	all := append(slices.Clip(opts), fileOption{Change: ruleset.ByFile(caller, s.own(), client, read)})
	return httplimit.Middleware(unused, all...)
}

// unused is the chooser of a middleware whose file chooses.
func unused(*http.Request) (httplimit.Limiter, error) { return nil, nil }

// ForwardAuth returns a handler that decides requests for proxies: for auth_request of nginx,
// ForwardAuth of Traefik and forward_auth of Caddy. A proxy asks it before it forwards a request. It
// describes that in the headers X-Forwarded-Method, X-Forwarded-Host and X-Forwarded-Uri, or in those
// that the file names in forward_auth. Only proxies may reach the handler, since it trusts these headers.
//
// The statuses are those of [Set.Middleware], with 200 for a request that the rules grant. A rule's
// refund has no effect, since the status of the response is unknown. A place of in_flight is held until
// its lease ends, since the end of the request is unknown. The headers are those of
// httplimit.ThreeHeaders, unless an option sets others. If the query is denied=403 or denied=401, that is
// the status in place of all from 400 to 499: nginx takes no others. The proxy must not pass on the
// client's query.
//
// The client's address is that of the header that the file's address names. It is unknown if the peer
// is not in address.trusted, and the rule's on_failure decides. If a rule needs the path or the host,
// and the proxy sends none, the failure mode of the options decides. The host may be that of an absolute
// URI. The length of a request's body is unknown.
func (s *Set) ForwardAuth(client *rratelimiter.Client, opts ...httplimit.Option) http.Handler {
	opts = append([]httplimit.Option{httplimit.Headers(httplimit.ThreeHeaders)}, opts...)
	opts = append(opts, fileOption{Change: func(to *gate.Options[*http.Request]) { to.EndUnseen = true }}) // the response is not seen
	decided := s.middleware("rules: ForwardAuth", client, (*ruleset.File).Forwarded, opts)(granted)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery { // some proxies pass on the client's query: any other has no meaning
		case "denied=403":
			w = &deniedWriter{w, http.StatusForbidden}
		case "denied=401":
			w = &deniedWriter{w, http.StatusUnauthorized}
		}
		w.Header().Set("Cache-Control", "no-store")
		decided.ServeHTTP(w, r)
	})
}

// granted answers a request that the rules grant.
var granted = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

type deniedWriter struct {
	http.ResponseWriter
	denied int
}

func (w *deniedWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		status = w.denied
	}
	w.ResponseWriter.WriteHeader(status)
}
