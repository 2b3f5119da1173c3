package rls_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	"github.com/rratelimiter/rratelimiter/rls"
)

const simple = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}\n"

// running is a service on loopback, as Envoy meets it.
type running struct {
	envoy  ratelimit.RateLimitServiceClient
	health grpc_health_v1.HealthClient
	http   string
	stop   func() error
}

// run runs a service until the test ends.
func run(t testing.TB, c rls.Config) *running {
	t.Helper()
	var err error
	c.GRPC, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.HTTP, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.Log, c.Deadline = quiet(), 2*time.Second // for a busy machine
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rls.Serve(ctx, c) }()
	conn, err := grpc.NewClient(c.GRPC.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	stop := sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() {
		conn.Close()
		assert.NoError(t, stop())
	})
	return &running{ratelimit.NewRateLimitServiceClient(conn), grpc_health_v1.NewHealthClient(conn),
		"http://" + c.HTTP.Addr().String(), stop}
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
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
		health, err := s.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus())
	}

	const body = `{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}`
	code, text := post(t, s.http+"/json", body)
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, strings.ReplaceAll(text, " ", ""), `"overallCode":"OK"`)
	code, text = post(t, s.http+"/json", body)
	assert.Equal(t, http.StatusTooManyRequests, code)
	assert.Contains(t, strings.ReplaceAll(text, " ", ""), `"overallCode":"OVER_LIMIT"`)
	for _, bad := range []string{"", "{", "[]", `{"domain": ""}`, `{"domain": "shop"}`, `{"unknown": 1}`, "\xff"} {
		code, _ = post(t, s.http+"/json", bad)
		assert.Equal(t, http.StatusBadRequest, code, bad)
	}
	code, _ = post(t, s.http+"/json", `{"domain": "`+strings.Repeat("x", 5<<20)+`"}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, code)

	code, text = get(t, s.http+"/healthcheck")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "OK", text)
	code, text = get(t, s.http+"/rlconfig")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "shop.user: unit=HOUR requests_per_unit=2, shadow_mode: false, quota_mode: false\n", text)

	redis.Close()
	_, err = s.envoy.ShouldRateLimit(ctx, request(t, "shop | user=ann"))
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	code, text = post(t, s.http+"/json", body)
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
		_, text := get(t, s.http+"/metrics")
		return strings.Contains(text, "\nratelimit_service_config_load_error 1\n")
	}
	assert.Eventually(t, failed, 9*time.Second, 20*time.Millisecond)
	assert.Equal(t, "OK | OK 8/9", left(asks()))

	version("..4", strings.Replace(simple, "requests_per_unit: 2", "requests_per_unit: 4", 1))
	assert.Eventually(t, func() bool { return left(asks()) == "OK | OK 3/4" }, 9*time.Second, 20*time.Millisecond)
}

func TestNew_InvalidConfig_Fails(t *testing.T) {
	client, _ := guardtest.Connect(t)
	_, err := rls.New(rls.Config{Path: folder(t, simple)})
	assert.ErrorIs(t, err, rratelimiter.ErrNoClient)
	_, err = rls.New(rls.Config{Client: client, Path: folder(t, simple), Deadline: -1})
	assert.ErrorIs(t, err, rratelimiter.ErrInvalidOption)
	var wrong *rls.ConfigError
	assert.ErrorAs(t, rls.Serve(t.Context(), rls.Config{Client: client, Path: "/nowhere"}), &wrong)
}
