package grpclimit_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
)

// A hundred clients share ten keys.
func TestServerInterceptors_ManyClientsOnSockets_GetTheirPermits(t *testing.T) {
	const permits = 50 // for ten clients
	for kind, c := range map[string]struct {
		calls int // of each client
		ask   func(ctx context.Context, c test.TestServiceClient) error
	}{
		"unary": {12, func(ctx context.Context, c test.TestServiceClient) error { return call(ctx, c) }},
		"streams": {10, func(ctx context.Context, c test.TestServiceClient) error {
			ss, err := c.FullDuplexCall(ctx)
			if err != nil {
				return err
			}
			_ = ss.Send(message)
			if _, err = ss.Recv(); err == nil {
				_ = ss.CloseSend()
				_, _ = ss.Recv()
			}
			return err
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			client, _ := guardtest.Connect(t, rratelimiter.WithDenialCache(time.Hour))
			perKey := grpclimit.Each(client, "api", grpclimit.ByMetadata("key"), hour(permits))
			s := new(service)
			g := grpc.NewServer(grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(perKey, unhurried)),
				grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perKey, unhurried)))
			test.RegisterTestServiceServer(g, s)
			addr := listen(g)
			defer g.Stop()

			guardtest.TestManyClients(t, c.calls, permits, func(key string) (send func() bool, hangUp func()) {
				conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
				assert.NoError(t, err)
				server := test.NewTestServiceClient(conn)
				ctx := metadata.AppendToOutgoingContext(context.Background(), "key", key)
				return func() bool {
					s := status.Convert(c.ask(ctx, server))
					if s.Code() == codes.OK {
						return true
					}
					details := s.Details() // unpacked again by each call
					if assert.Equal(t, codes.ResourceExhausted, s.Code()) && assert.Len(t, details, 2) {
						delay := details[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration()
						assert.InDelta(t, time.Hour, delay, float64(10*time.Minute))
						assert.Equal(t, "hour", details[1].(*errdetails.QuotaFailure).GetViolations()[0].GetQuotaId())
					}
					return false
				}, func() { conn.Close() }
			})
			assert.EqualValues(t, guardtest.Keys*permits, s.served.Load())
		})
	}
}

// A peer on a unix socket has no address, even if the name of its socket is one.
func TestByIP_UnixSocketOfNetHTTP_HasNoAddress(t *testing.T) {
	client, _ := guardtest.Connect(t)
	t.Chdir(t.TempDir())
	listener, err := net.Listen("unix", "server")
	require.NoError(t, err)
	var seen []string
	s := grpc.NewServer(grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(perIP(client, hour(1)), unhurried,
		grpclimit.Report(func(ctx context.Context, _ grpclimit.Call, o grpclimit.Outcome) {
			p, _ := peer.FromContext(ctx)
			seen = append(seen, p.Addr.String(), o.Limiter)
		}))))
	test.RegisterTestServiceServer(s, new(service))
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: s, Protocols: h2c}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	conn, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return net.DialUnix("unix", &net.UnixAddr{Name: "192.0.2.1"}, listener.Addr().(*net.UnixAddr))
		}))
	require.NoError(t, err)
	defer conn.Close()
	assert.Equal(t, codes.Unavailable, status.Code(call(t.Context(), test.NewTestServiceClient(conn))))
	assert.Equal(t, []string{"192.0.2.1", ""}, seen)
}
