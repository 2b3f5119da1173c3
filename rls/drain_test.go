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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rls"
)

func TestServe_Drain_ReportsNotServingAndAnswers(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := run(t, rls.Config{Client: client, Path: folder(t, simple), Drain: time.Hour}) // until the test has seen it
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, s.status(t, ""))
	s.cancel()
	require.Eventually(t, func() bool { return s.status(t, "") == grpc_health_v1.HealthCheckResponse_NOT_SERVING },
		9*time.Second, 10*time.Millisecond)
	code, _ := send(t, "GET", s.http+"/healthcheck", "")
	assert.Equal(t, http.StatusInternalServerError, code)
	envoy := ratelimit.NewRateLimitServiceClient(s.dial(t))
	answer, err := envoy.ShouldRateLimit(t.Context(), request(t, "shop | user=ann"))
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())
	select {
	case <-s.ended:
		t.Fatalf("it has ended: %v", s.err)
	default:
	}

	s.HTTP.Close() // ends the drain, since no request can arrive over HTTP
	assert.ErrorIs(t, s.stop(), net.ErrClosed)
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

// A client that begins requests and does not end them holds a bounded number of them on a
// connection.
func TestServeGRPC_RequestsWithoutAMessage_AreBounded(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := run(t, rls.Config{Client: client, Path: folder(t, simple)})
	begin := func(ctx context.Context) error {
		method := ratelimit.RateLimitService_ShouldRateLimit_FullMethodName
		_, err := s.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
		return err
	}
	for range 1024 {
		require.NoError(t, begin(t.Context()))
	}
	soon, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer end()
	require.Equal(t, codes.DeadlineExceeded, status.Code(begin(soon)))
	require.NoError(t, s.Close())
	require.NoError(t, s.stop())
}
