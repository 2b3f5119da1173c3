package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

const page = "../docs/http.md"

// documented is the server whose responses docs/http.md shows.
func documented(client *rratelimiter.Client) http.Handler {
	each := func(name string, policies ...limit.Policy) func(*http.Request) (httplimit.Limiter, error) {
		return httplimit.Each(client, name, httplimit.ByIP(), policies...)
	}
	two := []limit.Policy{limit.FixedWindow{Permits: 2, Interval: time.Second},
		limit.SlidingWindow{Permits: 100, Interval: time.Minute}}
	behind := httplimit.Each(client, "proxied", httplimit.ByIP(netip.MustParsePrefix("192.0.2.0/24")), two...)
	refused := errors.New("connection refused")
	window := limit.FixedWindow{Permits: 10, Interval: time.Minute}
	broken, ten := httplimit.All(fake.Failing(refused)), httplimit.All(fake.Failing(refused, window))
	mux := http.NewServeMux()
	for path, limited := range map[string]func(http.Handler) http.Handler{
		"/draft11": httplimit.Middleware(each("draft11", limit.FixedWindow{Permits: 1, Interval: time.Second}, two[1])),
		"/three":   httplimit.Middleware(each("three", two...), httplimit.Headers(httplimit.ThreeHeaders)),
		"/x":       httplimit.Middleware(each("x", two...), httplimit.Headers(httplimit.XRateLimit)),
		"/proxied": httplimit.Middleware(behind),
		"/none": httplimit.Middleware(each("none", limit.FixedWindow{Permits: 1, Interval: time.Minute}),
			httplimit.Headers(httplimit.NoHeaders)),
		"/named": httplimit.Middleware(each("named",
			limit.Named(`pages "per" day`, limit.Calendar{Permits: 50, Unit: limit.Day}),
			limit.Named("tokens", limit.TokenBucket{Capacity: 20, Refill: 5, Interval: time.Second})),
			httplimit.Cost(func(r *http.Request) int64 { return int64(len(r.URL.Query().Get("text"))) })),
		"/keyed":  httplimit.Middleware(httplimit.Each(client, "keyed", httplimit.ByHeader("X-Api-Key"), two...)),
		"/model":  httplimit.Middleware(each("model", two[1], limit.InFlight{Permits: 8, Lease: 30 * time.Second})),
		"/busy":   busy(httplimit.Middleware(each("busy", limit.InFlight{Permits: 1, Lease: 30 * time.Second}))),
		"/closed": httplimit.Middleware(broken, httplimit.OnFailure(limit.Closed)),
		"/open":   httplimit.Middleware(broken, httplimit.OnFailure(limit.Open)),
		"/local":  httplimit.Middleware(ten, httplimit.OnFailure(limit.Local(0.1))),
	} {
		mux.Handle(path, limited(hello))
	}
	return mux
}

// busy is a Middleware in front of a handler that asks again while it holds the place of its request.
func busy(limited func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		var handler http.Handler
		inside := false
		handler = limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if inside = !inside; inside {
				handler.ServeHTTP(w, r)
			}
		}))
		return handler
	}
}

var block = regexp.MustCompile("(?s)```http\n(.*?)\n\n.*?```\n")

// The page shows the requests in their order, and the file has those that it only describes.
func TestPage_Requests_AreAnsweredAsDocumented(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		server := listen(f, documented(client))
		for _, file := range []string{page, "testdata/responses.txt"} {
			blocks := golden.Blocks(t, file, block, func(parts []string) string {
				response := exchange(f, server.Dial(), parts[1]+"\n")
				response = strings.Replace(response, "Connection: close\n", "", 1)
				return fmt.Sprintf("```http\n%s\n\n%s\n```\n", parts[1], strings.TrimSuffix(response, "\n"))
			})
			assert.GreaterOrEqual(t, blocks, 6, file)
		}
	})
}

func TestSetUp_CodeOfThePage_RunsInExample(t *testing.T) {
	guardtest.TestPage(t, page, "perClient", "example_test.go")
	guardtest.TestPage(t, page, "limited :=", "example_option_test.go")
}

// listen serves a handler on the fake clock until its end.
func listen(f *redistest.Fixture, handler http.Handler) *redistest.Listener {
	listener := redistest.NewListener()
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	f.Cleanup(func() { server.Close() })
	return listener
}

// exchange sends lines of a request as they are and returns the response.
func exchange(t require.TestingT, conn net.Conn, lines string) string {
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, strings.ReplaceAll(lines, "\n", "\r\n")+"Connection: close\r\n\r\n")
	}()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	return strings.ReplaceAll(string(got), "\r\n", "\n")
}
