package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// scrape returns what Prometheus gets.
func (g *gateway) scrape(t *testing.T) string {
	w := httptest.NewRecorder()
	newAdmin(g.m, new(atomic.Bool)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, 200, w.Code)
	return w.Body.String()
}

// The program serves, gets load, and ends after the requests under way.
func TestRun_Signal_FinishesRequests(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-end
		}
		fmt.Fprint(w, "hello")
	}))
	defer upstream.Close()
	t.Setenv("REDIS_URL", "")
	ctx, stop := context.WithCancel(t.Context())
	out, done := new(redistest.Log), make(chan error)
	go func() {
		done <- run(ctx, []string{"-listen", "localhost:0", "-admin", "localhost:0", "-upstream", upstream.URL,
			"-redis-timeout", "1m", "-minute", "5"}, out)
	}()
	addresses := regexp.MustCompile(
		`^(http://\S+) -> .*: 10 requests per second and 5 per minute .* routes \[/\], counted in memory.*\n(http://\S+)/metrics and`)
	require.Eventually(t, func() bool { return addresses.MatchString(out.String()) }, time.Minute, time.Millisecond)
	found := addresses.FindStringSubmatch(out.String())

	shots := new(redistest.Log)
	require.NoError(t, run(t.Context(), []string{"load", "-rate", "40", "-seconds", "0.2", found[1]}, shots))
	assert.Regexp(t, `(?m)^200 +5 +62\.5 % +-$`, shots.String())
	assert.Regexp(t, `(?m)^429 +3 +37\.5 % +(59|60) s: `, shots.String())

	health, err := http.Get(found[2] + "/healthz")
	require.NoError(t, err)
	health.Body.Close()
	assert.Equal(t, 200, health.StatusCode)

	// A client with another address: the limit of the first one is used up.
	answered := make(chan string)
	go func() {
		r := httptest.NewRequest(http.MethodGet, found[1]+"/slow", nil)
		r.RequestURI = ""
		resp, err := (&http.Transport{DialContext: from("127.0.0.2")}).RoundTrip(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		answered <- fmt.Sprint(resp.StatusCode, " ", string(body), " ", err)
	}()
	select {
	case <-begun:
	case text := <-answered:
		t.Fatal("not begun: ", text)
	}
	stop()
	require.Eventually(t, func() bool { // no new connection
		resp, err := http.Get(found[1])
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond)
	close(end)
	assert.Equal(t, "200 hello <nil>", <-answered)
	assert.NoError(t, <-done)
}

func TestMetrics_Scrape_HasRequests(t *testing.T) {
	g := behind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login/missing" {
			w.WriteHeader(404)
		}
	}, "-second", "2", "-routes", "/login")
	for _, path := range []string{"/a", "/b", "/c", "/login", "/login/missing", "/login/x"} {
		g.get(t, path)
	}
	want := []string{
		`http_server_request_duration_seconds_count{http_response_status_code="200",http_route="/"} 2`,
		`http_server_request_duration_seconds_count{http_response_status_code="429",http_route="/"} 1`,
		`http_server_request_duration_seconds_count{http_response_status_code="404",http_route="/login"} 1`,
		`rratelimiter_middleware_requests_total{rratelimiter_middleware="gateway",rratelimiter_result="acquired"} 4`,
		`rratelimiter_middleware_requests_total{rratelimiter_middleware="gateway",rratelimiter_result="rejected"} 2`,
		`rratelimiter_requests_total{rratelimiter_policy="fixed_window",rratelimiter_result="acquired"} 4`,
		`rratelimiter_requests_total{rratelimiter_policy="fixed_window",rratelimiter_result="rejected"} 2`,
		`rratelimiter_fallback_active{rratelimiter_middleware="gateway"} 0`,
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // a request is recorded after its last byte
		assert.Subset(c, strings.Split(g.scrape(t), "\n"), want)
	}, time.Minute, 10*time.Millisecond)
}

// Only the health check reports that the gateway is about to end.
func TestHealth_WhileDraining_Is503(t *testing.T) {
	m, err := newMetrics()
	require.NoError(t, err)
	draining := new(atomic.Bool)
	admin := newAdmin(m, draining)
	for _, want := range []int{200, 503} {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		assert.Equal(t, want, w.Code)
		draining.Store(true)
	}
}

func TestFlags_Invalid_AreErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-upstream", "localhost:80"}, "is not a URL like http://host:port"},
		{[]string{"-upstream", "ftp://x"}, "is not a URL like http://host:port"},
		{[]string{"-routes", "/a,b"}, `the path "b" does not begin with /`},
		{[]string{"-trust", "10.0.0.1"}, "10.0.0.1"},
		{[]string{"-redis-down", "0"}, "is not open, closed or a share"},
		{[]string{"-redis-down", "NaN"}, "is not open, closed or a share"},
		{[]string{"-second", "0"}, "-second is 0"},
		{[]string{"-drain", "0s"}, "-drain 0s, want all above 0"},
		{[]string{"-max-body", "-1"}, "-max-body is -1"},
		{[]string{"fire"}, `"fire" is neither a flag nor "load"`},
		{[]string{"load", "-clients", "0"}, "-clients is 0"},
		{[]string{"load", "localhost"}, `"localhost" is not a URL`},
		{[]string{"load", "http://a", "http://b"}, "2 URLs, want one"},
	} {
		assert.ErrorContains(t, run(t.Context(), c.args, io.Discard), c.want, "%v", c.args)
	}
}
