package rls_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rls"
)

// authCall is a request of a proxy: its headers as "Name: value; ...", and the status of the
// response.
type authCall struct {
	headers string
	want    int
}

// ask requests /auth with these headers.
func ask(handler http.Handler, query, headers string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/auth/web"+query, nil) // from 192.0.2.1
	for header := range strings.SplitSeq(headers, "; ") {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// auth sends requests, in order, to a server of the part http of a file. Each value of the keys has
// one permit.
func auth(t *testing.T, keys []string, part string, calls []authCall) {
	t.Helper()
	file := "domain: web\nhttp:" + part + "\ndescriptors:\n"
	for _, key := range keys {
		file += "  - {key: " + key + ", rate_limit: {unit: year, requests_per_unit: 1}}\n"
	}
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := newServer(t, client, file).Handler()
		for i, c := range calls {
			assert.Equal(b, c.want, ask(handler, "", c.headers).Code, "%d: %s", i, c.headers)
		}
	})
}

// TestAuth_SpellingsOfHostAndMethod_MeetOneLimit: a route and a value of a request.
func TestAuth_SpellingsOfHostAndMethod_MeetOneLimit(t *testing.T) {
	auth(t, []string{"api", "host"}, `
  requests:
    - {host: "API.example.org", descriptor: [{key: api, value: all}]}
    - {method: POST, descriptor: [{key: host, from: host}]}`, []authCall{
		{"X-Forwarded-Host: api.example.org", 200},
		{"X-Forwarded-Host: API.example.org.:80", 429},
		{"X-Forwarded-Host: other.example.org, api.example.org", 429},
		{"X-Forwarded-Host: api.example.org, other.example.org", 200},
		{"X-Forwarded-Method: POST; X-Forwarded-Host: b.example.org", 200},
		{"X-Forwarded-Method: post; X-Forwarded-Host: B.example.org.", 429},
	})
	auth(t, []string{"get", "method"}, `
  requests:
    - {method: get, path: /a, descriptor: [{key: get, value: all}]}
    - {path: /b, descriptor: [{key: method, from: method}]}`, []authCall{
		{"X-Forwarded-Method: HEAD; X-Forwarded-Uri: /a", 200},
		{"X-Forwarded-Method: GET; X-Forwarded-Uri: /a", 429},
		{"X-Forwarded-Method: POST; X-Forwarded-Uri: /a", 200},
		{"X-Forwarded-Method: GET; X-Forwarded-Uri: /b", 200},
		{"X-Forwarded-Method: HEAD; X-Forwarded-Uri: /b", 429},
	})
}

// TestAuth_SpellingsOfPaths_AreRefusedOrMeetOneLimit, as in the middleware of package rules.
func TestAuth_SpellingsOfPaths_AreRefusedOrMeetOneLimit(t *testing.T) {
	keys := []string{"login", "path"}
	part := `
  OPTION
  requests:
    - {path: /login, descriptor: [{key: login, value: all}]}
    - {path: "/p/*", descriptor: [{key: path, from: path}]}`
	auth(t, keys, strings.Replace(part, "OPTION", "escaped_slashes: refuse", 1), []authCall{
		{"X-Forwarded-Uri: /login?next=/../x;%2F", 200},
		{"X-Forwarded-Uri: //login", 429},
		{"X-Forwarded-Uri: /x/..%2Flogin", 400},
		{"X-Forwarded-Uri: /login#x", 400},
		{"X-Forwarded-Uri: /p/a", 200},
		{"X-Forwarded-Uri: /p/a;1", 429},
		{"X-Forwarded-Uri: /p/b", 200},
	})
	auth(t, keys, strings.Replace(part, "OPTION", "escaped_slashes: allow", 1)+`
    - {path: "/files/a%2fb/*", descriptor: [{key: path, value: "all"}]}`, []authCall{
		{"X-Forwarded-Uri: /files/a%2Fb/c", 200},
		{"X-Forwarded-Uri: /files/a%2fb/d", 429},
		{"X-Forwarded-Uri: /files/a/b/c", 200},
		{"X-Forwarded-Uri: /p/a%2Fb", 200},
		{"X-Forwarded-Uri: /p/a/b", 429},
		{"X-Forwarded-Uri: /p/..%2Flogin", 400},
	})
	// A path of the file has the escapes of a URI. An escaped star is no wildcard.
	auth(t, keys, strings.Replace(part, "OPTION", "", 1)+`
    - {path: "/100%25", descriptor: [{key: path, value: percent}]}
    - {path: "/a%2A", descriptor: [{key: path, value: star}]}`, []authCall{
		{"X-Forwarded-Uri: /100%25", 200},
		{"X-Forwarded-Uri: /100%25", 429},
		{"X-Forwarded-Uri: /ab", 200},
		{"X-Forwarded-Uri: /ab", 200},
		{"X-Forwarded-Uri: /a*", 200},
		{"X-Forwarded-Uri: /a%2a", 429},
	})
}

func TestAuth_UnusedPath_IsNotRefused(t *testing.T) {
	auth(t, []string{"k"}, " {requests: [{descriptor: [{key: k, value: v}]}]}", []authCall{
		{"X-Forwarded-Uri: /x/../a", 200},
	})
}

// TestAuth_HeadersThatAreNotConfigured_AreIgnored: a client's own do not count.
func TestAuth_HeadersThatAreNotConfigured_AreIgnored(t *testing.T) {
	part := `
  OPTIONS
  requests: [{method: POST, host: a.example, path: /login, descriptor: [{key: login, value: all}]}]`
	auth(t, []string{"login"}, strings.Replace(part, "  OPTIONS\n", "", 1), []authCall{
		{"X-Forwarded-Method: POST; X-Forwarded-Host: a.example; X-Forwarded-Uri: /login; X-Original-URI: /x; X-Original-Url: /x; X-Original-Method: GET", 200},
		{"X-Forwarded-Method: POST; X-Forwarded-Host: a.example; X-Forwarded-Uri: /login; X-Original-URI: /x; X-Original-Url: /x; X-Original-Method: GET", 429},
		{"X-Original-Method: POST; X-Forwarded-Host: a.example; X-Original-URI: /login", 200},
		{"X-Forwarded-Method: POST; X-Forwarded-Host: a.example; X-Original-URI: /login", 503}, // the proxy reports no path
		{"X-Forwarded-Method: POST; X-Forwarded-Host: b.example; X-Original-URI: /login", 200}, // and need not report it
	})
	auth(t, []string{"login"}, strings.Replace(part, "OPTIONS",
		"uri_header: x-original-url\n  method_header: X-Original-Method\n  host_header: X-Original-Host", 1), []authCall{
		{"X-Original-Method: POST; X-Original-Host: a.example; X-Original-Url: /login", 200},
		{"X-Original-Method: POST; X-Original-Host: a.example; X-Original-Url: /login; X-Forwarded-Uri: /x; X-Forwarded-Method: GET; X-Forwarded-Host: x", 429},
		{"X-Original-Method: POST; X-Original-Host: a.example; X-Original-Uri: /x; X-Original-Url: /x; X-Original-Url: /login", 429}, // the proxy's is last
	})
}

// TestAuth_PeerThatIsNoTrustedProxy_IsLoggedAndCounted: all of its clients count as one.
func TestAuth_PeerThatIsNoTrustedProxy_IsLoggedAndCounted(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var log bytes.Buffer
		s := newServer(t, client, `
domain: web
descriptors: [{key: login, rate_limit: {unit: year, requests_per_unit: 9}}]
http:
  trust: [10.0.0.0/8]
  requests: [{descriptor: [{key: login, from: address}]}]`, func(c *rls.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		log.Reset()
		assert.Contains(b, metricsOf(s), "\nratelimit_service_auth_untrusted_peer 0\n")
		for range 3 {
			assert.Equal(b, http.StatusOK, ask(s.Handler(), "", "X-Forwarded-For: 203.0.113.7").Code)
		}
		assert.Equal(b, 1, strings.Count(log.String(), "\n"), log.String())
		assert.Contains(b, log.String(), "level=WARN")
		assert.Contains(b, log.String(), "domain=web peer=192.0.2.1")
		assert.Contains(b, log.String(), "http.trust")
		assert.Contains(b, metricsOf(s), "\nratelimit_service_auth_untrusted_peer 3\n")
		r := httptest.NewRequest(http.MethodGet, "/auth/web", nil)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		assert.Contains(b, metricsOf(s), "\nratelimit_service_auth_untrusted_peer 3\n")
	})
}

// onWrite is called for each write, such as a line of a log.
type onWrite func()

func (f onWrite) Write(text []byte) (int, error) {
	f()
	return len(text), nil
}

// TestAuth_ReloadDuringARequest_DecidesByOneConfiguration: the configuration that makes the
// descriptors of a request decides them. The warning about the peer comes between both.
func TestAuth_ReloadDuringARequest_DecidesByOneConfiguration(t *testing.T) {
	client, _ := guardtest.Connect(t)
	file := func(key string) string {
		return "domain: web\ndescriptors: [{key: " + key + ", rate_limit: {unit: second, requests_per_unit: 0}}]\n" +
			"http: {trust: [10.0.0.0/8], requests: [{descriptor: [{key: " + key + ", from: address}]}]}"
	}
	var s *rls.Server
	s = newServer(t, client, file("a"), func(c *rls.Config) {
		reload := onWrite(func() {
			assert.NoError(t, os.WriteFile(filepath.Join(c.Path, "0.yaml"), []byte(file("b")), 0o600))
			assert.NoError(t, s.Reload())
		})
		c.Log = slog.New(slog.NewTextHandler(reload, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	assert.Equal(t, http.StatusTooManyRequests, ask(s.Handler(), "", "X-Forwarded-For: 203.0.113.7").Code)
}

// TestAuth_ShadowLimit_IsNotShown to clients, and neither is any of a service in shadow mode.
func TestAuth_ShadowLimit_IsNotShown(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		file := `
domain: web
descriptors:
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: real, rate_limit: {unit: year, requests_per_unit: 9}}
http:
  requests:
    - {descriptor: [{key: shadow, value: all}]}
    - {host: real.example, descriptor: [{key: real, value: all}]}`
		s := newServer(t, client, file, func(c *rls.Config) { c.Headers = true })
		for range 2 {
			w := ask(s.Handler(), "", "X-Forwarded-Host: other.example")
			assert.Equal(b, http.StatusOK, w.Code)
			assert.Empty(b, w.Header()["Ratelimit-Limit"])
		}
		assert.Equal(b, "9", ask(s.Handler(), "", "X-Forwarded-Host: real.example").Header().Get("RateLimit-Limit"))
		answer, err := s.ShouldRateLimit(b.Context(), request(t, "web | shadow=all"))
		assert.NoError(b, err)
		assert.Empty(b, answer.GetResponseHeadersToAdd())
		s = newServer(t, client, file, func(c *rls.Config) { c.Shadow = true })
		assert.Empty(b, ask(s.Handler(), "", "X-Forwarded-Host: real.example").Header()["Ratelimit-Limit"])
	})
}
