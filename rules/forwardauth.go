package rules

import (
	"net/http"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// ForwardAuth returns a handler that decides requests for proxies: for auth_request of nginx,
// ForwardAuth of Traefik and forward_auth of Caddy. A proxy asks it before it forwards a request. It
// describes that in the headers X-Forwarded-Method, X-Forwarded-Host and X-Forwarded-Uri, or in those
// that the file names in forward_auth. Only proxies may reach the handler, since it trusts these headers.
//
// The statuses are those of [Set.Middleware], with 200 for a request that the rules grant. A rule's
// refund has no effect, since the status of the response is unknown. The
// headers are those of httplimit.ThreeHeaders, unless an option sets others. If the query is
// denied=403 or denied=401, that is the status in place of all from 400 to 499: nginx takes no
// others. The proxy must not pass on the client's query.
//
// The client's address is that of the header that the file's address names. It is unknown if the peer
// is not in address.trusted, and the rule's on_failure decides. If a rule needs the path or the host,
// and the proxy sends none, the failure mode of the options decides. The host may be that of an absolute
// URI. The length of a request's body is unknown.
func (s *Set) ForwardAuth(client *rratelimiter.Client, opts ...httplimit.Option) http.Handler {
	opts = append([]httplimit.Option{httplimit.Headers(httplimit.ThreeHeaders)}, opts...)
	keeps := fileOption{Change: func(to *guard.Settings) { to.Refunds = nil }} // the response is not seen
	m := s.middlewares("rules: ForwardAuth", client, keeps, opts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery { // some proxies pass on the client's query: any other has no meaning
		case "denied=403":
			w = &deniedWriter{w, http.StatusForbidden}
		case "denied=401":
			w = &deniedWriter{w, http.StatusUnauthorized}
		}
		w.Header().Set("Cache-Control", "no-store")
		current := m.Now()
		serveHTTP(current, current.File().Forwarded(r), w, r, granted)
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
