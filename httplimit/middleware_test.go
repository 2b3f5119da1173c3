package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
				assert.Equal(t, http.Header{"Content-Type": {"application/problem+json"}}, w.Header())
			})
		})
	}
}
