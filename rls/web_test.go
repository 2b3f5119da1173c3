package rls_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

const webConfig = `
domain: web
descriptors:
  - {key: login, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: api, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: host
    value: img.example
    descriptors:
      - {key: method, value: GET, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: path, value: /api/banned, rate_limit: {unit: second, requests_per_unit: 0}}
http:
  trust: [192.0.2.1, 10.0.0.0/8]
  on_failure: FAILURE
  requests:
    - {method: post, path: /login, descriptor: [{key: login, from: address}]}
    - {path: "/api/*", descriptor: [{key: api, header: X-Api-Key}]}
    - {host: IMG.example, descriptor: [{key: host, from: host}, {key: method, from: method}]}
    - {path: /api/banned, descriptor: [{key: path, from: path}]}
`

func TestForwardAuth_HeadersOfProxies_AreDecided(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := newServer(t, client, strings.Replace(webConfig, "FAILURE", "closed", 1)).Handler()
		for _, c := range []struct {
			query   string
			headers string // "Name: value; ..."
			code    int
			wait    string // Retry-After
			left    string // RateLimit-Remaining
		}{
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login?next=/; X-Forwarded-For: 203.0.113.7", 200, "", "0"},
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.7", 429, "60", "0"},
			{"?denied=403", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.7", 403, "60", "0"},
			{"?denied=401", "X-Forwarded-Method: POST; X-Forwarded-Uri: /%6Cogin; X-Forwarded-For: 203.0.113.7", 401, "60", "0"},
			{"?denied=418", "X-Forwarded-Uri: /login", 400, "", ""},
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.8, 10.1.2.3", 200, "", "0"},
			// The client wrote the left address.
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 6.6.6.6, 203.0.113.8", 429, "60", "0"},
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login", 503, "", ""}, // no address
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.7", 200, "", ""},
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /api/x; X-Api-Key: k1", 200, "", "1"},
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /api/y; X-Api-Key: k1", 200, "", "0"},
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /api/z; X-Api-Key: k1", 429, "60", "0"},
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /api/z; X-Api-Key: k2", 200, "", "1"},
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /api/z", 200, "", ""}, // no descriptor without the header
			// Servers pick different values of a header, and all together are a new key each time.
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /api/z; X-Api-Key: k1; X-Api-Key: 1", 400, "", ""},
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /api/z; X-Api-Key: 2; X-Api-Key: k1", 400, "", ""},
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /apis; X-Api-Key: k1", 200, "", ""},
			{"", "X-Forwarded-Uri: /api/banned", 429, "1", "0"},
			{"", "X-Forwarded-Uri: /api/banned; X-Api-Key: k2", 429, "1", "0"}, // of two limits, the one that denied
			{"", "X-Forwarded-Uri: //api/banned", 429, "1", "0"},               // another spelling, as nginx and others serve it
			{"", "X-Forwarded-Uri: /../banned", 400, "", ""},
			{"?denied=403", "X-Forwarded-Uri: /../banned", 403, "", ""}, // since nginx accepts no 400
			{"", "X-Forwarded-Uri: http://elsewhere.example/api/banned", 429, "1", "0"},
			{"", "X-Forwarded-Uri: /api/banned/", 200, "", ""}, // another path
			{"", "X-Forwarded-Host: Img.Example; X-Forwarded-Method: GET; X-Forwarded-Uri: /a", 200, "", "0"},
			{"", "X-Forwarded-Host: img.example; X-Forwarded-Method: HEAD; X-Forwarded-Uri: /b", 429, "3600", "0"},
			{"", "X-Forwarded-Uri: \x01\xff%zz", 400, "", ""},
			{"", "", 503, "", ""}, // a proxy that reports no path
		} {
			w := ask(handler, c.query, c.headers)
			assert.Equal(t, c.code, w.Code, c.headers)
			assert.Equal(t, c.wait, w.Header().Get("Retry-After"), c.headers)
			assert.Equal(t, c.left, w.Header().Get("RateLimit-Remaining"), c.headers)
			if c.code >= 400 && c.query != "?denied=418" {
				assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			}
		}
		w := ask(handler, "", "X-Forwarded-Uri: /..")
		assert.JSONEq(t, `{"type": "about:blank", "title": "Bad Request"}`, w.Body.String())
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/auth/none", nil))
		assert.Equal(t, http.StatusNotFound, w.Code)
	})
}

func TestForwardAuth_RedisDown_FollowsTheFile(t *testing.T) {
	for failure, want := range map[string]int{"open": http.StatusOK, "closed": http.StatusServiceUnavailable} {
		guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
			handler := newServer(t, client, strings.Replace(webConfig, "FAILURE", failure, 1)).Handler()
			b.Redis.SetError("LOADING")
			for range 2 {
				w := ask(handler, "", "X-Forwarded-Uri: /api/x; X-Api-Key: k")
				assert.Equal(t, want, w.Code, failure)
				assert.NotContains(t, w.Body.String(), "LOADING")
			}
			b.Redis.SetError("")
		})
	}
}
