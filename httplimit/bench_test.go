package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// discards is a ResponseWriter that costs nothing.
type discards struct {
	header http.Header
	status int
}

func (d *discards) Header() http.Header            { return d.header }
func (d *discards) Write(text []byte) (int, error) { return len(text), nil }
func (d *discards) WriteHeader(status int)         { d.status = status }

func benchmark(b *testing.B, handler http.Handler, status int) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := &discards{header: make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	}
	if w.status != status {
		b.Fatalf("answered %d, not %d", w.status, status)
	}
}

var bare = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

// BenchmarkBare is a handler without a middleware.
func BenchmarkBare(b *testing.B) { benchmark(b, bare, http.StatusOK) }

// BenchmarkNoLimiter is what a middleware costs a request for which no limiter is chosen.
func BenchmarkNoLimiter(b *testing.B) {
	benchmark(b, httplimit.Middleware(httplimit.All(nil))(bare), http.StatusOK)
}

// BenchmarkDenied is a denial from the denial cache, for each style.
func BenchmarkDenied(b *testing.B) {
	client, fromMemory := guardtest.NewDenied(b, "denied", "denied:192.0.2.1")
	limiter := limit.New(client, "denied", guardtest.Day)
	run := func(name string, limited func(http.Handler) http.Handler) {
		b.Run(name, func(b *testing.B) {
			fromMemory(b, func() { benchmark(b, limited(bare), http.StatusTooManyRequests) })
		})
	}
	for name, style := range map[string]httplimit.HeaderStyle{
		"Draft11": httplimit.Draft11, "ThreeHeaders": httplimit.ThreeHeaders, "XRateLimit": httplimit.XRateLimit,
		"NoHeaders": httplimit.NoHeaders,
	} {
		run(name, httplimit.Middleware(httplimit.All(limiter), httplimit.Policies(guardtest.Day), httplimit.Headers(style)))
	}
	run("ByIP", httplimit.Middleware(httplimit.Each(client, "denied", httplimit.ByIP(), guardtest.Day)))
	b.Run("Take alone", func(b *testing.B) { fromMemory(b, func() { guardtest.BenchmarkTake(b, limiter) }) })
}
