package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestOptions_Invalid_PanicWithTheReason(t *testing.T) {
	guardtest.TestOptions(t, common)
	client := new(rratelimiter.Client)
	connected, _ := guardtest.Connect(t)
	forever := rratelimiter.Rate{Permits: 1, Interval: time.Hour}
	guardtest.TestPanics(t, map[string]func(){
		"httplimit: Middleware: choose is nil":        func() { httplimit.Middleware(nil) },
		"httplimit: Transport: choose is nil":         func() { httplimit.Transport(nil, nil) },
		`httplimit: Each: name "web": the Key is nil`: func() { httplimit.Each(connected, "web", nil, hour(1)) },
		`httplimit: Each: name "": rratelimiter: `:    func() { httplimit.Each(client, "", httplimit.ByIP(), hour(1)) },
		`httplimit: EachRedisson: prefix "": rratelimiter: invalid limiter name: the prefix is empty`: func() {
			httplimit.EachRedisson(client, "", httplimit.ByIP(), forever)
		},
		`httplimit: EachRedisson: prefix "t:": rratelimiter: invalid rate: without a KeepAlive`: func() {
			httplimit.EachRedisson(client, "t:", httplimit.ByIP(), forever)
		},
		`httplimit: EachRedisson: prefix "t:": rratelimiter: `: func() {
			httplimit.EachRedisson(nil, "t:", httplimit.ByIP(), forever)
		},
		"httplimit: Headers: the style is unknown: 7: ": func() { httplimit.Headers(7) },
	})
}

// The status is 411 if the length of the body is unknown, else 400.
func TestMiddleware_InvalidRequest_IsAnsweredWithAProblem(t *testing.T) {
	own := func(*http.Request) (string, error) {
		return "", fmt.Errorf("no tenant: %w", limit.ErrInvalidRequest)
	}
	length := httplimit.Cost(func(r *http.Request) int64 { return r.ContentLength })
	for name, c := range map[string]struct {
		key    httplimit.Key
		opts   []httplimit.Option
		status int
		title  string
		detail string
	}{
		"a key of the user": {own, nil, 400, "Bad Request", ""},
		"an unknown length": {httplimit.ByIP(), []httplimit.Option{length}, 411, "Length Required", ""},
		"no header": {httplimit.Hashed(httplimit.ByHeader("x-api-key")), nil, 400, "Bad Request",
			`"detail": "The request needs one value of the header X-Api-Key.", `},
		"two headers": {httplimit.ByHeader("x-two"), nil, 400, "Bad Request",
			`"detail": "The request needs one value of the header X-Two.", `},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				handler := httplimit.Middleware(httplimit.Each(client, "web", c.key, hour(10)), c.opts...)(ok)
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("chunks"))
				r.ContentLength = -1
				r.Header["X-Two"] = []string{"a", "b"} // no reply has the values
				w := serve(handler, r)
				assert.Equal(t, c.status, w.Code)
				want := fmt.Sprintf(`{"type": "about:blank", %s"title": %q, "status": %d}`, c.detail, c.title, c.status)
				assert.JSONEq(t, want, w.Body.String())
				header := http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}}
				assert.Equal(t, header, w.Header())
			})
		})
	}
}

func withoutKey(*http.Request) (httplimit.Limiter, error) { return nil, errors.New("no key") }

// TestMiddleware_Refusal_HasOnlyItsOwnHeaders, and no cache stores it, whatever an outer handler has set.
func TestMiddleware_Refusal_HasOnlyItsOwnHeaders(t *testing.T) {
	custom := httplimit.Refuse(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	for status, opts := range map[int][]httplimit.Option{
		http.StatusServiceUnavailable: nil, http.StatusTeapot: {custom},
	} {
		failing := httplimit.Middleware(withoutKey, opts...)
		outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, value := range map[string]string{"Cache-Control": "public, max-age=300", "ETag": `"x"`, "Vary": "Accept",
				"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Content-Length": "99", "Content-Encoding": "gzip",
				"CDN-Cache-Control": "max-age=300", "Cloudflare-CDN-Cache-Control": "max-age=300", "X-Accel-Expires": "300",
				"Surrogate-Control": "max-age=300", "Content-Range": "bytes 0-9/99", "Digest": "md5=x",
				"Content-Digest": "sha-256=:x:", "Repr-Digest": "sha-256=:x:", "Content-Disposition": "attachment",
				"Trailer": "X-Sum", "Expires": "Sun, 06 Nov 2094 08:49:37 GMT"} {
				w.Header().Set(name, value)
			}
			w.Header()[http.TrailerPrefix+"X-Sum"] = []string{"99"}
			failing(ok).ServeHTTP(w, r)
		})
		w := serve(outer, request())
		assert.Equal(t, status, w.Code)
		h := w.Header()
		h.Del("Content-Type")
		assert.Equal(t, http.Header{"Cache-Control": {"no-store"}, "Vary": {"Accept"}, "Retry-After": {"1"}}, h)
	}
}

// compressing is the ResponseWriter of a handler that compresses responses.
type compressing struct{ http.ResponseWriter }

// TestMiddleware_RefusalInsideCompression_KeepsTheEncoding: the outer handler encodes the refusal too. With
// another Middleware in between, nothing is encoded.
func TestMiddleware_RefusalInsideCompression_KeepsTheEncoding(t *testing.T) {
	failing := httplimit.Middleware(withoutKey)(ok)
	granted := httplimit.Middleware(httplimit.All(grants))(failing)
	for _, inner := range []http.Handler{failing, granted} {
		for encodes, want := range map[bool]string{false: "", true: "gzip"} {
			w := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if w.Header().Set("Content-Encoding", "gzip"); encodes {
					w = compressing{w}
				}
				inner.ServeHTTP(w, r)
			}), request())
			assert.Equal(t, http.StatusServiceUnavailable, w.Code)
			assert.Equal(t, want, w.Header().Get("Content-Encoding"))
		}
	}
}

// TestMiddleware_InFlightHijacked_PlaceReturnsWithTheHandler: the connection may live on.
func TestMiddleware_InFlightHijacked_PlaceReturnsWithTheHandler(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		l := limit.New(client, "api", limit.InFlight{Permits: 1, Lease: time.Minute})
		server := listen(f, httplimit.Middleware(httplimit.All(l))(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				assert.NoError(t, err)
				go func() {
					time.Sleep(time.Second)
					_, _ = io.WriteString(conn, "late")
					conn.Close()
				}()
			})))
		for range 3 {
			assert.Equal(t, "late", exchange(f, server.Dial(), "GET / HTTP/1.1\nHost: example.org\n"))
		}
	})
}

// TestMiddleware_InFlightHTTP2_EachStreamHasAPlace, until its handler returns, also if the client resets the stream.
func TestMiddleware_InFlightHTTP2_EachStreamHasAPlace(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		l := limit.New(client, "api", limit.InFlight{Permits: 3, Lease: time.Minute, Renew: true})
		listener, both := redistest.NewListener(), new(http.Protocols)
		both.SetUnencryptedHTTP2(true)
		server := &http.Server{Protocols: both, Handler: httplimit.Middleware(httplimit.All(l))(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, 2, r.ProtoMajor)
				w.WriteHeader(http.StatusOK)
				assert.NoError(t, http.NewResponseController(w).Flush())
				<-r.Context().Done()
			}))}
		go func() { _ = server.Serve(listener) }()
		dials := 0
		transport := &http.Transport{Protocols: both, DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials++
			return listener.Dial(), nil
		}}
		open := func() (status int, end func()) {
			ctx, stop := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/", nil)
			require.NoError(t, err)
			resp, err := transport.RoundTrip(r)
			require.NoError(t, err)
			return resp.StatusCode, func() {
				stop()
				resp.Body.Close()
				time.Sleep(time.Second)
			}
		}
		var ends [3]func()
		for i := range ends {
			var status int
			status, ends[i] = open()
			require.Equal(t, 200, status)
		}
		time.Sleep(3 * time.Minute)
		status, end := open()
		require.Equal(t, 429, status)
		end()
		ends[1]()
		status, ends[1] = open()
		require.Equal(t, 200, status)
		for _, end := range ends {
			end()
		}
		assert.Equal(t, 1, dials)
		assert.Empty(t, f.Redis.Keys())
		transport.CloseIdleConnections()
		server.Close()
	})
}
