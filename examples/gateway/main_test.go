package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// newGateway returns a gateway of 1,000 requests per second and three per minute, and what closes its Redis.
func newGateway(t *testing.T, upstream string, trusted ...string) (gateway http.Handler, closeRedis func()) {
	redis, err := connect()
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	target, err := url.Parse(upstream)
	require.NoError(t, err)
	telemetry, _, err := newMetrics()
	require.NoError(t, err)
	c := config{perSecond: 1000, perMinute: 3}
	for _, network := range trusted {
		c.trusted = append(c.trusted, netip.MustParsePrefix(network))
	}
	return newHandler(rratelimiter.New(redis), c, target, telemetry.Middleware("gateway")), redis.Close
}

// send sends a request of 192.0.2.1, with pairs of names and values of fields.
func send(handler http.Handler, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// newUpstream serves the forwarded address of each request.
func newUpstream(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header.Values("X-Forwarded-For"), "+"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestGateway_EachClientAndRoute_HasItsLimit(t *testing.T) {
	gateway, _ := newGateway(t, newUpstream(t), "192.0.2.0/24")
	for _, client := range []string{"198.51.100.1", "198.51.100.2"} {
		for path, permits := range map[string]int{"/": 3, "/login": 5} {
			for i := range permits + 2 {
				w := send(gateway, path, "X-Forwarded-For", "203.0.113.9, "+client)
				if i < permits {
					assert.Equal(t, 200, w.Code)
					assert.Equal(t, client, w.Body.String(), "the upstream sees the limited address")
					assert.Contains(t, w.Header().Get("RateLimit"), `"minute";r=`)
					continue
				}
				assert.Equal(t, 429, w.Code)
				assert.NotEmpty(t, w.Header().Get("Retry-After"))
			}
		}
	}
}

func TestGateway_UntrustedPeer_CannotChooseItsAddress(t *testing.T) {
	gateway, _ := newGateway(t, newUpstream(t), "10.0.0.0/8")
	for i := range 5 {
		w := send(gateway, "/", "X-Forwarded-For", "198.51.100."+string(rune('1'+i)))
		assert.Equal(t, i >= 3, w.Code == 429)
		assert.True(t, i >= 3 || w.Body.String() == "192.0.2.1")
	}
}

// A request that does not reach the upstream costs nothing.
func TestGateway_UpstreamIsGone_ReleasesThePermit(t *testing.T) {
	gateway, _ := newGateway(t, "http://"+redistest.Unused(t))
	for range 9 {
		assert.Equal(t, 502, send(gateway, "/").Code)
	}
}

func TestGateway_RedisIsAway_ShareServes(t *testing.T) {
	gateway, closeRedis := newGateway(t, newUpstream(t))
	closeRedis()
	served := 0
	for range 9 {
		if send(gateway, "/login").Code == 200 {
			served++
		}
	}
	assert.NotZero(t, served)
	assert.Less(t, served, 5)
}

// The gateway starts while Redis is down, and serves the share until Redis comes and decides.
func TestGateway_RedisComesLater_ThenItDecides(t *testing.T) {
	redis, address, come := redistest.Away(t)
	t.Setenv("REDIS_URL", "redis://"+address)
	gateway, _ := newGateway(t, newUpstream(t))
	assert.Equal(t, 200, send(gateway, "/login").Code)
	come()
	require.Eventually(t, func() bool {
		send(gateway, "/login")
		return len(redis.Keys()) > 0
	}, time.Minute, 10*time.Millisecond)
}

func TestRun_Ends_WhenItsContextDoes(t *testing.T) {
	addresses := []string{redistest.Unused(t), redistest.Unused(t)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"-listen", addresses[0], "-admin", addresses[1]}, io.Discard) }()
	get := func(url string) (text string) {
		require.Eventually(t, func() bool {
			resp, err := http.Get("http://" + url)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			text = string(body)
			return err == nil && resp.StatusCode == http.StatusOK
		}, 10*time.Second, 10*time.Millisecond, url)
		return text
	}
	assert.Equal(t, "GET /x for 127.0.0.1\n", get(addresses[0]+"/x"))
	assert.Equal(t, "ok\n", get(addresses[1]+"/healthz"))
	assert.Contains(t, get(addresses[1]+"/metrics"), `rratelimiter_middleware_requests_total`)
	stop()
	assert.NoError(t, <-ended)
	assert.Error(t, run(t.Context(), []string{"-trust", "nobody"}, io.Discard))
	assert.Error(t, run(t.Context(), []string{"-second", "0"}, io.Discard))
}
