package rls_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rls"
)

// Until all clients have had the time to see it.
func TestServe_Drain_ReportsNotServingAndAnswers(t *testing.T) {
	client, _ := guardtest.Connect(t)
	forGRPC, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	forHTTP, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	soon, end := context.WithTimeout(t.Context(), 30*time.Second)
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- rls.Serve(ctx, rls.Config{
			Client: client, Path: folder(t, simple), GRPC: forGRPC, HTTP: forHTTP, Log: quiet(), Deadline: 10 * time.Second,
			Drain: time.Hour, // until the test has seen it
		})
	}()
	// dial opens a new connection.
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(forGRPC.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	health := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		answer, err := grpc_health_v1.NewHealthClient(dial()).Check(soon, &grpc_health_v1.HealthCheckRequest{},
			grpc.WaitForReady(true))
		require.NoError(t, err)
		return answer.GetStatus()
	}
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health())
	cancel()
	require.Eventually(t, func() bool { return health() == grpc_health_v1.HealthCheckResponse_NOT_SERVING },
		9*time.Second, 10*time.Millisecond)
	code, _ := get(t, "http://"+forHTTP.Addr().String()+"/healthcheck")
	assert.Equal(t, http.StatusInternalServerError, code)
	answer, err := ratelimit.NewRateLimitServiceClient(dial()).ShouldRateLimit(soon, request(t, "shop | user=ann"))
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())
	select {
	case err := <-served:
		t.Fatalf("it has ended: %v", err)
	default:
	}

	forHTTP.Close() // nothing more can come over HTTP, so that there is no use in waiting
	select {
	case err := <-served:
		assert.ErrorIs(t, err, net.ErrClosed)
	case <-soon.Done():
		t.Fatal("it goes on without its listeners")
	}
}

func TestServe_Drain_Ends(t *testing.T) {
	client, _ := guardtest.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	require.NoError(t,
		rls.Serve(ctx, rls.Config{Client: client, Path: folder(t, simple), Log: quiet(), Drain: 50 * time.Millisecond}))
	assert.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)
	assert.Error(t, rls.Serve(ctx, rls.Config{Client: client, Path: folder(t, simple), Drain: -1}))
}
