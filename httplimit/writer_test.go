package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

// named limits each client under a name of Redis.
func named(client *rratelimiter.Client, name string, policies ...limit.Policy) func(http.Handler) http.Handler {
	return httplimit.Middleware(httplimit.Each(client, name, httplimit.ByIP(), policies...))
}

// A name of the draft's fields is of one policy of the response, also in a denial. The handler sees the
// outcome of the innermost.
func TestMiddleware_EqualNamesInAChain_AreNumbered(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		outer := named(client, "outer", hour(9), limit.SlidingLog{Permits: 8, Interval: time.Hour})
		inner := named(client, "inner", hour(2))
		unknown := httplimit.Middleware(httplimit.All(client.Limiter("java")))
		require.NoError(t, client.Limiter("java").SetRate(t.Context(), rratelimiter.Rate{Permits: 50, Interval: time.Hour}))
		chain := outer(unknown(unknown(inner(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			o, limited := httplimit.FromContext(r.Context())
			assert.True(t, limited)
			assert.Equal(t, "inner:192.0.2.1", o.Limiter)
		})))))
		h := serve(chain, request()).Header()
		assert.Equal(t, []string{`"hour-2";q=9;w=3600, "hour-2-2";q=8;w=3600`, `"default-2";q=50`, `"default";q=50`,
			`"hour";q=2;w=3600`}, h["Ratelimit-Policy"])
		assert.Equal(t, []string{`"hour-2";r=8;t=3600, "hour-2-2";r=7;t=3600`, `"default-2";r=49`, `"default";r=48`,
			`"hour";r=1;t=3600`}, h["Ratelimit"])
		serve(chain, request())
		w := serve(chain, request())
		assert.Contains(t, w.Body.String(), `"violated-policies":["hour"]`)
		assert.Equal(t, `"hour";r=0;t=3600`, w.Header()["Ratelimit"][3])
	})
}

// TestHeaders_ManyNamesUpstream_CostBoundedWork: an upstream may send thousands of names. The code that reads
// text copies it, so the allocated bytes count the work.
func TestHeaders_ManyNamesUpstream_CostBoundedWork(t *testing.T) {
	client, _ := guardtest.Connect(t)
	work := func(names int) (allocated uint64) {
		handler := named(client, "web", hour(1000))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var fields []string
			for i := range names {
				fields = append(fields, fmt.Sprintf(`"hour-%d";r=1`, i+2))
			}
			w.Header()["Ratelimit"] = []string{`"hour";r=1`, strings.Join(fields, ", ")}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w.WriteHeader(http.StatusOK)
			runtime.ReadMemStats(&after)
			allocated = after.TotalAlloc - before.TotalAlloc
			assert.Contains(t, w.Header().Get("Ratelimit"), fmt.Sprintf(`"hour-%d";r=9`, names+2))
		}))
		serve(handler, request())
		return allocated
	}
	few := work(1000)
	assert.Less(t, work(4000), 8*few, "for four times as many names, beside %d bytes", few)
}

// The fields of an upstream are a list beside those of the proxy, or one of the two wins.
func TestHeaders_ReverseProxy_OneValueForEachField(t *testing.T) {
	for name, c := range map[string]struct {
		style  httplimit.HeaderStyle
		status int
		sent   http.Header
		want   http.Header
	}{
		"items follow": {httplimit.Draft11, 200,
			http.Header{"Ratelimit-Policy": {`"hour";q=99`}, "Ratelimit": {`"hour";r=1`, `"x"`}},
			http.Header{"Ratelimit-Policy": {`"hour-2";q=5;w=3600`, `"hour";q=99`},
				"Ratelimit": {`"hour-2";r=4;t=3600`, `"hour";r=1`, `"x"`}}},
		"more left upstream": {httplimit.ThreeHeaders, 200,
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"9"}, "Ratelimit-Reset": {"7"}},
			http.Header{"Ratelimit-Limit": {"5"}, "Ratelimit-Remaining": {"4"}, "Ratelimit-Reset": {"3600"}}},
		"fewer left upstream": {httplimit.ThreeHeaders, 200,
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"3"}, "Ratelimit-Reset": {"7"}},
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"3"}, "Ratelimit-Reset": {"7"}}},
		"as many left upstream": {httplimit.ThreeHeaders, 200,
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"4"}, "Ratelimit-Reset": {"7"}},
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"4"}, "Ratelimit-Reset": {"7"}}},
		"no number upstream": {httplimit.ThreeHeaders, 200,
			http.Header{"Ratelimit-Limit": {"10, 10;w=60"}, "Ratelimit-Reset": {"7"}},
			http.Header{"Ratelimit-Limit": {"5"}, "Ratelimit-Remaining": {"4"}, "Ratelimit-Reset": {"3600"}}},
		"denied without numbers": {httplimit.ThreeHeaders, 429, http.Header{"Retry-After": {"9"}},
			http.Header{"Ratelimit-Limit": {"5"}, "Ratelimit-Remaining": {"4"}, "Ratelimit-Reset": {"3600"},
				"Retry-After": {"9"}}},
		"denied upstream": {httplimit.XRateLimit, 429,
			http.Header{"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"20"}, "X-Ratelimit-Reset": {"9"},
				"Retry-After": {"9"}},
			http.Header{"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"20"}, "X-Ratelimit-Reset": {"9"},
				"Retry-After": {"9"}}},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "upstream"})
				proxy.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: c.status, Header: c.sent.Clone(), Body: http.NoBody}, nil
				})
				w := serve(httplimit.Middleware(perIP(client, hour(5)), httplimit.Headers(c.style))(proxy), request())
				assert.Equal(t, c.status, w.Code)
				assert.Equal(t, c.want, w.Header())
			})
		})
	}
}

// Whatever a handler does with its ResponseWriter works, and its response has the headers.
func TestMiddleware_ResponseWriter_IsUsedInEachWay(t *testing.T) {
	client, _ := guardtest.Connect(t)
	limited := named(client, "web", limit.FixedWindow{Permits: 100, Interval: time.Hour})
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		status  int
		body    string
	}{
		"nothing": {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"write":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }, 200, "hello"},
		"status":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, ""},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			clear(w.Header()) // as a ReverseProxy does
			http.Error(w, "no", 404)
		}, 404, "no\n"},
		"copy": {func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("file"))
			assert.NoError(t, err)
		}, 200, "file"},
		"flush": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "event")
		}, 200, "event"},
		"controller": {func(w http.ResponseWriter, _ *http.Request) {
			assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)))
			assert.NoError(t, http.NewResponseController(w).Flush())
		}, 200, ""},
		"hijack": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				defer conn.Close()
				w.Header().Set("Content-Length", "3")
				own := &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: w.Header(),
					Body: io.NopCloser(strings.NewReader("raw")), ContentLength: 3}
				assert.NoError(t, own.Write(conn))
			}
		}, 200, "raw"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(limited(c.handler))
			defer server.Close()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			require.NoError(t, err)
			response, err := server.Client().Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			assert.Equal(t, c.status, response.StatusCode)
			assert.Equal(t, c.body, string(body))
			assert.Len(t, response.Header["Ratelimit"], 1)
		})
	}
}

// TestMiddleware_ResponseIsNotChanged_HandlerGetsTheWriter: of the server, or of an outer handler, with all its methods.
func TestMiddleware_ResponseIsNotChanged_HandlerGetsTheWriter(t *testing.T) {
	for name, option := range map[string]httplimit.Option{
		"shadow": httplimit.Shadow(), "no headers": httplimit.Headers(httplimit.NoHeaders),
	} {
		own, ran := httptest.NewRecorder(), false
		httplimit.Middleware(httplimit.All(grants), option)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			ran = true
			assert.Same(t, own, w, name)
		})).ServeHTTP(own, request())
		assert.True(t, ran)
	}
}

// TestMiddleware_Handlers_ChangeTheRequest: an outer handler reads the pattern, and http.Server removes the
// files of the form.
func TestMiddleware_Handlers_ChangeTheRequest(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /files/{id}", func(_ http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.ParseMultipartForm(1))
	})
	denies := fake.Deciding(func(context.Context) (d rratelimiter.Decision, err error) { return d, nil })
	for name, h := range map[string]http.Handler{
		"admitted": httplimit.Middleware(httplimit.All(grants))(mux),
		"refused":  httplimit.Middleware(httplimit.All(denies), httplimit.Refuse(mux))(hello),
	} {
		t.Run(name, func(t *testing.T) {
			body := "--b\r\nContent-Disposition: form-data; name=a; filename=a\r\n\r\nx\r\n--b--\r\n"
			r := httptest.NewRequest(http.MethodPost, "/files/1", strings.NewReader(body))
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
			h.ServeHTTP(httptest.NewRecorder(), r)
			assert.Equal(t, "POST /files/{id}", r.Pattern)
			assert.NotNil(t, r.MultipartForm)
		})
	}
}
