package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

// hour returns a window of an hour.
func hour(permits int64) limit.Policy {
	return limit.FixedWindow{Permits: permits, Interval: time.Hour}
}

// perIP limits each client.
func perIP(client *rratelimiter.Client, policies ...limit.Policy) func(*http.Request) (httplimit.Limiter, error) {
	return httplimit.Each(client, "web", httplimit.ByIP(), policies...)
}

// serve sends a request through a handler.
func serve(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func request() *http.Request { return httptest.NewRequest(http.MethodGet, "/", nil) }

// ok is a handler that answers with 200.
var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// grants is a limiter that grants all.
var grants = new(fake.Limiter)
