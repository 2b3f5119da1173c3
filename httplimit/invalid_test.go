package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The status is 411 if the length of the body is unknown, else 400.
func TestMiddleware_InvalidRequest_IsAnsweredWithAProblem(t *testing.T) {
	own := func(*http.Request) (string, error) {
		return "", fmt.Errorf("no tenant: %w", httplimit.ErrInvalidRequest)
	}
	length := httplimit.Cost(func(r *http.Request) int64 { return r.ContentLength })
	for name, c := range map[string]struct {
		key    httplimit.Key
		opts   []httplimit.Option
		status int
		title  string
	}{
		"a key of the user":     {own, nil, 400, "Bad Request"},
		"an unknown length":     {httplimit.ByIP(), []httplimit.Option{length}, 411, "Length Required"},
		"a length as a failure": {httplimit.ByIP(), []httplimit.Option{length, httplimit.InvalidAsFailure()}, 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				handler := httplimit.Middleware(httplimit.Each(client, "web", c.key, hour(10)), c.opts...)(new(ok))
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("chunks"))
				r.ContentLength = -1
				w := serve(handler, r)
				assert.Equal(b, c.status, w.Code)
				if c.title != "" {
					want := fmt.Sprintf(`{"type": "about:blank", "title": %q, "status": %d}`, c.title, c.status)
					assert.JSONEq(b, want, w.Body.String())
					assert.Equal(b, http.Header{"Content-Type": {"application/problem+json"}}, w.Header())
				}
			})
		})
	}
}

// A path without the wildcard is an error of the server.
func TestMiddleware_EmptyWildcard_IsRefused(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		limited := httplimit.Middleware(httplimit.Each(client, "web", httplimit.ByPathValue("rest"), hour(1)))(new(ok))
		mux := http.NewServeMux()
		mux.Handle("/files/{rest...}", limited)
		mux.Handle("/other/", limited)
		for path, want := range map[string]int{"/files/": 400, "/files/a": 200, "/other/a": 503} {
			assert.Equal(b, want, serve(mux, httptest.NewRequest(http.MethodGet, path, nil)).Code, path)
		}
	})
}
