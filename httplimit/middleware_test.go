package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The handler sees the outcome of the innermost.
func TestMiddleware_SeveralAroundAHandler_ShowAllPolicies(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		outer := httplimit.Middleware(httplimit.Each(client, "all", httplimit.ByIP(), httplimit.Named("outer", hour(10))))
		inner := httplimit.Middleware(httplimit.Each(client, "some", httplimit.ByIP(), httplimit.Named("inner", hour(5))))
		w := serve(outer(inner(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			o, limited := httplimit.FromContext(r.Context())
			assert.True(b, limited)
			assert.Equal(b, "some:192.0.2.1", o.Limiter)
			assert.EqualValues(b, 4, o.Decision.Remaining)
		}))), request())
		assert.Equal(b, []string{`"outer";r=9;t=3600`, `"inner";r=4;t=3600`}, w.Header()["Ratelimit"])
		assert.Equal(b, []string{`"outer";q=10;w=3600`, `"inner";q=5;w=3600`}, w.Header()["Ratelimit-Policy"])
	})
}

func TestSettings_InvalidForHTTP_Panic(t *testing.T) {
	for name, f := range map[string]func(){
		"no choice":           func() { httplimit.Middleware(nil) },
		"no choice for calls": func() { httplimit.Transport(nil, nil) },
		"no key":              func() { httplimit.Each(new(rratelimiter.Client), "web", nil, hour(1)) },
		"no name":             func() { httplimit.Each(new(rratelimiter.Client), "", httplimit.ByIP(), hour(1)) },
		"a style":             func() { httplimit.Headers(7) },
		"a share of nothing":  func() { httplimit.Local(0) },
		"a mode":              func() { httplimit.OnFailure(2) },
		"a name's letters":    func() { httplimit.Named("é", hour(1)) },
		"no policy's name":    func() { httplimit.Named("", hour(1)) },
	} {
		assert.Panics(t, f, name)
	}
}
