package rls_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

const simple = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}\n"

// running is a service on loopback.
type running struct {
	rls.Config
	*grpc.ClientConn
	envoy  ratelimit.RateLimitServiceClient
	http   string
	cancel func()        // of the context of Serve
	ended  chan struct{} // Serve has returned err
	err    error
}

// stop ends the service, and returns the result of Serve.
func (r *running) stop() error {
	r.cancel()
	<-r.ended
	return r.err
}

// dial opens another connection.
func (r *running) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(r.GRPC.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// status returns the health of the service, as a new connection sees it.
func (r *running) status(t testing.TB, service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	t.Helper()
	ask := &grpc_health_v1.HealthCheckRequest{Service: service}
	answer, err := grpc_health_v1.NewHealthClient(r.dial(t)).Check(t.Context(), ask, grpc.WaitForReady(true))
	require.NoError(t, err)
	return answer.GetStatus()
}

// run runs a service until the test ends.
func run(t testing.TB, c rls.Config) *running {
	t.Helper()
	var err error
	c.GRPC, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.HTTP, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if c.Deadline = 2 * time.Second; c.Log == nil { // for a busy machine
		c.Log = quiet()
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Config: c, http: "http://" + c.HTTP.Addr().String(), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = rls.Serve(ctx, c)
	}()
	t.Cleanup(func() { _ = r.stop() })
	r.ClientConn = r.dial(t)
	r.envoy = ratelimit.NewRateLimitServiceClient(r)
	return r
}

// send sends an HTTP request, and returns the status and the body of the response.
func send(t testing.TB, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// Over sockets.
func TestServe_GRPCAndHTTP_Answer(t *testing.T) {
	client, redis := guardtest.Connect(t)
	s := run(t, rls.Config{Client: client, Path: folder(t, simple)})
	ctx := t.Context()

	answer, err := s.envoy.ShouldRateLimit(ctx, request(t, "shop | user=ann"))
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())
	assert.EqualValues(t, 1, answer.GetStatuses()[0].GetLimitRemaining())
	for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
		assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, s.status(t, name))
	}

	const body = `{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}`
	code, text := send(t, "POST", s.http+"/json", body)
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, strings.ReplaceAll(text, " ", ""), `"overallCode":"OK"`)
	code, text = send(t, "POST", s.http+"/json", body)
	assert.Equal(t, http.StatusTooManyRequests, code)
	assert.Contains(t, strings.ReplaceAll(text, " ", ""), `"overallCode":"OVER_LIMIT"`)
	for _, bad := range []string{"", "{", "[]", `{"domain": ""}`, `{"domain": "shop"}`, `{"unknown": 1}`, "\xff"} {
		code, _ = send(t, "POST", s.http+"/json", bad)
		assert.Equal(t, http.StatusBadRequest, code, bad)
	}

	code, text = send(t, "GET", s.http+"/healthcheck", "")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "OK", text)
	code, text = send(t, "GET", s.http+"/rlconfig", "")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "shop.user: unit=HOUR requests_per_unit=2, shadow_mode: false, quota_mode: false\n", text)

	redis.Close()
	_, err = s.envoy.ShouldRateLimit(ctx, request(t, "shop | user=ann"))
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	code, text = send(t, "POST", s.http+"/json", body)
	assert.Equal(t, http.StatusInternalServerError, code)
	assert.Equal(t, "Internal Server Error\n", text, "no error's text")
	require.NoError(t, s.stop())
}

// State stays. Package yamlfile tests each way to change a file.
func TestServe_FileChanges_TakesValidFiles(t *testing.T) {
	client, _ := guardtest.Connect(t)
	var log redistest.Log
	reload := make(chan os.Signal)
	s := run(t, rls.Config{
		Client: client, Path: folder(t, simple), Log: slog.New(slog.NewTextHandler(&log, nil)), Reload: reload,
	})
	replace := func(limit string) {
		text := strings.Replace(simple, "requests_per_unit: 2", "requests_per_unit: "+limit, 1)
		require.NoError(t, os.WriteFile(filepath.Join(s.Path, "0.yaml"), []byte(text), 0o600))
	}
	left := func() string {
		text := summary(s.envoy.ShouldRateLimit(context.Background(), request(t, "shop | user=ann +0")))
		return strings.Join(strings.Fields(text)[:4], " ")
	}
	require.NoError(t, redistest.Err(s.envoy.ShouldRateLimit(t.Context(), request(t, "shop | user=ann"))))
	assert.Equal(t, "OK | OK 1/2", left())

	replace("9")
	assert.Eventually(t, func() bool { return left() == "OK | OK 8/9" }, 9*time.Second, 20*time.Millisecond)
	replace("many")
	log.Await(t, "the configuration is wrong")
	_, text := send(t, "GET", s.http+"/metrics", "")
	assert.Contains(t, text, "\nratelimit_service_config_load_error 1\n")
	reload <- syscall.SIGHUP // reads the file again, which has not changed
	log.Await(t, "rls: reload")
	log.Await(t, "the configuration is wrong")
	assert.Equal(t, "OK | OK 8/9", left())
	require.NoError(t, s.stop())
}

func TestNew_InvalidConfig_Fails(t *testing.T) {
	client, _ := guardtest.Connect(t)
	assert.ErrorIs(t, redistest.Err(rls.New(rls.Config{Path: folder(t, simple)})), rratelimiter.ErrNoClient)
	for _, c := range []rls.Config{{Deadline: -1}, {Drain: -1}, {NearLimit: -1}, {NearLimit: 1.1}} {
		c.Client, c.Path = client, folder(t, simple)
		assert.ErrorIs(t, rls.Serve(t.Context(), c), rratelimiter.ErrInvalidOption)
	}
	assert.ErrorIs(t, rls.Serve(t.Context(), rls.Config{Client: client, Path: "/nowhere"}), os.ErrNotExist)
}

// A service without files answers other paths, and knows no domain.
func TestServe_NoPath_ServesOtherPaths(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s, err := rls.New(rls.Config{Client: client, Log: quiet(), Other: http.RedirectHandler("/x", http.StatusFound)})
	require.NoError(t, err)
	require.NoError(t, s.Reload())
	answer, err := s.ShouldRateLimit(t.Context(), request(t, "x | a=b"))
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())
	for path, want := range map[string]int{"/healthcheck": http.StatusOK, "/auth": http.StatusFound} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, want, w.Code, path)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, s.Watch(ended), context.Canceled)
}

// twoLimits has two descriptors that are decided in two calls, with limits of a name.
const twoLimits = `
domain: d
descriptors:
  - {key: a, rate_limit: {name: %[1]s, unit: hour, requests_per_unit: 1000}}
  - {key: b, shadow_mode: true, rate_limit: {name: %[1]s, unit: hour, requests_per_unit: 1000}}
`

// TestShouldRateLimit_RequestsUnderWay_AreDecidedByTheOldFile: one request never meets rules of two files.
func TestShouldRateLimit_RequestsUnderWay_AreDecidedByTheOldFile(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		path, reload := filepath.Join(t.TempDir(), "rules.yaml"), func() {}
		client := rratelimiter.New(f.Conn, rratelimiter.WithObserver(&rratelimiter.Observer{
			Decision: func(context.Context, rratelimiter.DecisionInfo) { reload() },
		}))
		write := func(name string) { require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, twoLimits, name), 0o600)) }
		write("old")
		s := newServer(t, client, "", func(c *rls.Config) { c.Path = path })
		reload = sync.OnceFunc(func() {
			write("new")
			assert.NoError(t, s.Reload())
		})
		for _, want := range []string{"old", "new"} {
			response, err := s.ShouldRateLimit(t.Context(), request(t, "d | a=1 | b=1"))
			require.NoError(t, err)
			for _, status := range response.GetStatuses() {
				assert.Equal(t, want, status.GetCurrentLimit().GetName())
			}
		}
	})
}
