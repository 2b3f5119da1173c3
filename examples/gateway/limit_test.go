package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// Each client on each route gets exactly its limit, by either protocol, and no denied request reaches the
// upstream.
func TestLimits_EachClientAndRoute_GetsItsPermits(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			served := new(redistest.Log)
			g := behind(t, func(_ http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(served, r.Header.Get("X-Forwarded-For"), r.URL.Path)
			}, "-second", "2", "-routes", "/login,/api", "-trust", "127.0.0.1/32")
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
			transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
			defer transport.CloseIdleConnections()
			var want strings.Builder
			for _, client := range []string{"198.51.100.1", "198.51.100.2"} {
				for _, path := range []string{"/", "/login", "/api/x"} {
					for _, status := range []int{200, 200, 429} {
						r, err := http.NewRequest(http.MethodGet, g.url+path, nil)
						require.NoError(t, err)
						r.Header.Set("X-Forwarded-For", "203.0.113.9, "+client)
						resp, _ := roundTrip(t, transport, r)
						assert.Equal(t, protocol, resp.Proto)
						assert.Equal(t, status, resp.StatusCode)
						if status == 200 {
							fmt.Fprintln(&want, client, path)
						}
					}
				}
			}
			assert.Equal(t, want.String(), served.String())
		})
	}
}

// No header of an untrusted peer changes the limited address or the upstream's headers.
func TestAddress_Spoofed_IsIgnored(t *testing.T) {
	g := behind(t, func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "[127.0.0.1] [] [http] []", fmt.Sprint(r.Header["X-Forwarded-For"], r.Header["Forwarded"],
			r.Header["X-Forwarded-Proto"], r.Header["X-Real-Ip"]))
	}, "-second", "5", "-trust", "10.0.0.0/8")
	got := make(map[int]int)
	for i := range 40 {
		address := fmt.Sprintf("198.51.100.%d", i)
		resp, _ := g.get(t, "/", "X-Forwarded-For", address, "X-Forwarded-For", "10.0.0.1", "Forwarded", "for="+address,
			"X-Forwarded-Proto", "https", "Connection", "X-Forwarded-For, X-Real-Ip", "X-Real-Ip", address)
		got[resp.StatusCode]++
	}
	assert.Equal(t, map[int]int{200: 5, 429: 35}, got)
}

func TestAddress_TrustedProxy_IsForwarded(t *testing.T) {
	g := behind(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"], r.Header["X-Forwarded-Host"])
	}, "-trust", "127.0.0.0/8")
	_, body := g.get(t, "/", "X-Forwarded-For", "192.0.2.1, 198.51.100.7, 127.0.0.9", "X-Forwarded-Proto", "https",
		"X-Forwarded-Host", "example.org")
	assert.Equal(t, "[198.51.100.7] [https] [example.org]", body)
}

// If a trusted proxy sends no client address, -redis-down decides.
func TestAddress_Unknown_FailureModeDecides(t *testing.T) {
	for mode, want := range map[string]int{"open": 200, "closed": 503, "0.5": 503} {
		g := behind(t, func(http.ResponseWriter, *http.Request) {}, "-trust", "127.0.0.0/8", "-redis-down", mode)
		resp, _ := g.get(t, "/")
		assert.Equal(t, want, resp.StatusCode, mode)
		assert.Contains(t, g.log.String(), "sent no header X-Forwarded-For")
	}
}

func TestRoutes_Spellings_AreTheSameRoute(t *testing.T) {
	rs := newRoutes([]string{"/login", "/api/", "/api/v2", "/"})
	for target, want := range map[string]string{
		"/": "/", "/login": "/login", "/login/": "/login", "/login/x": "/login", "/loginx": "/", "/LOGIN": "/",
		"/api": "/api", "/api/v2": "/api/v2", "/api/v2/x": "/api/v2",
		"/api/v3": "/api", "/api/v2/../v3": "/api", "/./login": "/login", "//login": "/login", "/x/..%2flogin": "/login",
		"/%2e%2e/login": "/login", "/..%5clogin": "/login",
		"/login;a=b/c": "/login", "/;x/login": "/login", "/login%3bx": "/login", "/login%00": "/", "/%252e%252e/login": "/",
		"/%6cogin/x": "/login", "/api%2f": "/api", "/x/..%2Flogin%2Fx": "/login", "//login//": "/login",
	} {
		assert.Equal(t, want, rs.of(httptest.NewRequest(http.MethodGet, target, nil)), target)
	}
	r := httptest.NewRequest(http.MethodOptions, "/", nil)
	r.URL.Path = "*"
	assert.Equal(t, "/", rs.of(r))
}

// TestAddress_Unknown_FailureModeDecides has the other modes.
func TestRedis_DownAndUp_ShareDecides(t *testing.T) {
	g := behind(t, func(http.ResponseWriter, *http.Request) {}, "-second", "1000", "-minute", "10",
		"-routes", "/elsewhere", "-redis-down", "0.5", "-redis-timeout", "2s")
	g.get(t, "/elsewhere") // connected
	node := g.redis.Addr()
	g.redis.Close()
	begin, got := time.Now(), make(map[int]int)
	for range 20 {
		resp, body := g.get(t, "/")
		assert.NotContains(t, body, "refused")
		got[resp.StatusCode]++
	}
	assert.Equal(t, 20, got[200]+got[429])
	// Half of ten per minute is five: three at once, and another one every 20 s.
	assert.GreaterOrEqual(t, got[200], 3)
	assert.LessOrEqual(t, got[200], 3+int(time.Since(begin)/(20*time.Second)))
	for _, active := range []string{"1", "0"} {
		line := fmt.Sprintf(`rratelimiter_fallback_active{rratelimiter_middleware="gateway",rratelimiter_node=%q} %s`,
			node, active)
		require.Eventually(t, func() bool {
			resp, _ := g.get(t, "/elsewhere")
			return strings.Contains(g.scrape(t), line) && (active == "1" || resp.StatusCode == 200)
		}, time.Minute, 10*time.Millisecond, line)
		if active == "1" {
			require.NoError(t, g.redis.Restart())
		}
	}
}
