package rls_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// State stays. A ConfigMap is swapped by a link.
func TestServe_ConfigMapChanges_TakesValidFiles(t *testing.T) {
	client, _ := guardtest.Connect(t)
	top := t.TempDir()
	version := func(name, text string) {
		dir := filepath.Join(top, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(text), 0o600))
		require.NoError(t, os.Symlink(name, filepath.Join(top, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(top, "..tmp"), filepath.Join(top, "..data")))
	}
	version("..1", simple)
	require.NoError(t, os.Symlink("..data/shop.yaml", filepath.Join(top, "shop.yaml")))
	s := run(t, rls.Config{Client: client, Path: top})
	asks := func() string {
		return summary(s.envoy.ShouldRateLimit(context.Background(), request(t, "shop | user=ann +0")))
	}
	left := func(text string) string { return strings.Join(strings.Fields(text)[:4], " ") }
	_, err := s.envoy.ShouldRateLimit(t.Context(), request(t, "shop | user=ann"))
	require.NoError(t, err)
	assert.Equal(t, "OK | OK 1/2", left(asks()))

	version("..2", strings.Replace(simple, "requests_per_unit: 2", "requests_per_unit: 9", 1))
	assert.Eventually(t, func() bool { return left(asks()) == "OK | OK 8/9" }, 9*time.Second, 20*time.Millisecond)

	version("..3", strings.Replace(simple, "requests_per_unit: 2", "requests_per_unit: many", 1))
	failed := func() bool {
		_, text := send(t, "GET", s.http+"/metrics", "")
		return strings.Contains(text, "\nratelimit_service_config_load_error 1\n")
	}
	assert.Eventually(t, failed, 9*time.Second, 20*time.Millisecond)
	assert.Equal(t, "OK | OK 8/9", left(asks()))
	require.NoError(t, s.stop())
}

func TestNew_InvalidConfig_Fails(t *testing.T) {
	client, _ := guardtest.Connect(t)
	_, err := rls.New(rls.Config{Path: folder(t, simple)})
	assert.ErrorIs(t, err, rratelimiter.ErrNoClient)
	_, err = rls.New(rls.Config{Client: client, Path: folder(t, simple), Deadline: -1})
	assert.ErrorIs(t, err, rratelimiter.ErrInvalidOption)
	assert.ErrorIs(t, rls.Serve(t.Context(), rls.Config{Client: client, Path: "/nowhere"}), os.ErrNotExist)
}

// More limits than one call decides, each of them five times.
func TestShouldRateLimit_EqualDescriptors_CountInOrder(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, "domain: x\ndescriptors:\n  - {key: k, rate_limit: {unit: year, requests_per_unit: 5}}\n")
	text := "x"
	for i := range 125 {
		text += fmt.Sprintf(" | k=%d", i%25)
	}
	answer, err := s.ShouldRateLimit(t.Context(), request(t, text))
	require.NoError(t, err)
	for i, one := range answer.GetStatuses() {
		require.EqualValues(t, 4-i/25, one.GetLimitRemaining(), "descriptor %d", i)
	}
}

// A service without files answers other paths, and knows no domain.
func TestServe_NoPath_ServesOtherPaths(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s, err := rls.New(rls.Config{Client: client, Log: quiet(), Other: http.NotFoundHandler()})
	require.NoError(t, err)
	require.NoError(t, s.Reload())
	answer, err := s.ShouldRateLimit(t.Context(), request(t, "x | a=b"))
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())
	for path, want := range map[string]int{"/healthcheck": http.StatusOK, "/auth": http.StatusNotFound} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, want, w.Code, path)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, s.Watch(ended), context.Canceled)
}
