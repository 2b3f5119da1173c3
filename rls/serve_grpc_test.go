package rls_test

import (
	"context"
	"net"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rls"
)

// A client that begins requests and does not end them holds a bounded number of them on a
// connection.
func TestServeGRPC_RequestsWithoutAMessage_AreBounded(t *testing.T) {
	client, _ := guardtest.Connect(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- rls.Serve(ctx, rls.Config{Client: client, Path: folder(t, simple), GRPC: listener, Log: quiet()})
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	begin := func(ctx context.Context) error {
		method := ratelimit.RateLimitService_ShouldRateLimit_FullMethodName
		_, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
		return err
	}
	for range 1024 {
		require.NoError(t, begin(ctx))
	}
	soon, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	require.Equal(t, codes.DeadlineExceeded, status.Code(begin(soon)))
	require.NoError(t, conn.Close())
	cancel()
	require.NoError(t, <-served)
}
