package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
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

func TestOptions_Invalid_PanicWithTheReason(t *testing.T) {
	client, none := new(rratelimiter.Client), limit.FixedWindow{}
	guardtest.TestPanics(t, map[string]func(){
		"httplimit: Middleware: choose is nil":              func() { httplimit.Middleware(nil) },
		"httplimit: Transport: choose is nil":               func() { httplimit.Transport(nil, nil) },
		`httplimit: Each: name "web": the Key is nil`:       func() { httplimit.Each(client, "web", nil, hour(1)) },
		`httplimit: Each: name "": rratelimiter: `:          func() { httplimit.Each(client, "", httplimit.ByIP(), hour(1)) },
		"httplimit: Policies: rratelimiter: invalid rate: ": func() { httplimit.Policies(none) },
		"httplimit: Describe: rratelimiter: invalid rate: ": func() { httplimit.Describe(httplimit.Named("x", none)) },
		"httplimit: Headers: the style is unknown: 7: ":     func() { httplimit.Headers(7) },
		"httplimit: Local: the share is out of range: 0: ":  func() { httplimit.Local(0) },
		"httplimit: OnFailure: a share of the limit is 2":   func() { httplimit.OnFailure(2) },
		`httplimit: Named: the name "é" of a policy`:        func() { httplimit.Named("é", hour(1)) },
		`httplimit: Named: the name "" of a policy`:         func() { httplimit.Named("", hour(1)) },
	})
}
