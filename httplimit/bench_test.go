package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/alicebob/miniredis/v2"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
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

// BenchmarkDenied is a refusal from the denial cache, for each style.
func BenchmarkDenied(b *testing.B) {
	server := miniredis.RunT(b)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	defer redis.Close()
	client := rratelimiter.New(redis, rratelimiter.WithDenialCache(time.Hour))
	day := limit.FixedWindow{Permits: 1, Interval: 24 * time.Hour}
	limiter := limit.New(client, "denied", day)
	remembered := func(ask func()) {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			before := server.CommandCount()
			if ask(); server.CommandCount() == before {
				return
			}
			if time.Now().After(deadline) {
				b.Fatal("denials are not answered from memory")
			}
		}
	}
	remembered(func() { _, _ = limiter.Take(b.Context(), 1) })
	before := server.CommandCount()
	for name, style := range map[string]httplimit.HeaderStyle{
		"Draft11": httplimit.Draft11, "ThreeHeaders": httplimit.ThreeHeaders, "XRateLimit": httplimit.XRateLimit, "NoHeaders": httplimit.NoHeaders,
	} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, httplimit.Middleware(httplimit.All(limiter), httplimit.Policies(day), httplimit.Headers(style))(bare), http.StatusTooManyRequests)
		})
	}
	b.Run("Take alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d, err := limiter.Take(b.Context(), 1); err != nil || d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("ByIP", func(b *testing.B) {
		perIP := httplimit.Each(client, "denied", httplimit.ByIP(), day)
		handler := httplimit.Middleware(perIP)(bare)
		remembered(func() { serve(handler, request()) })
		before = server.CommandCount()
		benchmark(b, handler, http.StatusTooManyRequests)
	})
	// What a Client does to remember a denial may not have ended by then; a request that was not answered from memory would be a call.
	if sent := server.CommandCount() - before; sent > 100 {
		b.Fatalf("%d commands were sent", sent)
	}
}
