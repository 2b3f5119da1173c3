package middleware

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// startGRPC starts a gRPC server with an interceptor of a failure mode on a Redis, and clients that
// call it. Results and modes are those of httplimit.
func startGRPC(t *testing.T, addr string, mode httplimit.FailureMode) *load {
	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{addr}})
	l := &load{t: t}
	perClient := grpclimit.Each(rratelimiter.New(redis), "api", grpclimit.ByMetadata("client"),
		limit.SlidingWindow{Permits: permits, Interval: interval})
	arrives := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(context.WithValue(ctx, arrivalKey{}, time.Now()), req)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(arrives, grpclimit.UnaryServerInterceptor(perClient,
		grpclimit.OnFailure(grpclimit.FailureMode(mode)), grpclimit.Deadline(deadline), grpclimit.HealthAndReflection(),
		grpclimit.OnRedisChange(l.change),
		grpclimit.Report(func(ctx context.Context, _ grpclimit.Call, o grpclimit.Outcome) {
			md, _ := metadata.FromIncomingContext(ctx)
			l.decide(ctx, httplimit.Result(o.Result), o.Local, md["client"][0])
		}))))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for i := range clients {
		l.done.Go(func() {
			conn, err := grpc.NewClient(listener.Addr().String(),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			for ctx.Err() == nil {
				l.call(healthpb.NewHealthClient(conn), fmt.Sprint(i%keys))
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return l
}

// call makes one call, and checks its status and trailers.
func (l *load) call(client healthpb.HealthClient, key string) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "client", key),
		time.Minute)
	defer cancel()
	var trailer metadata.MD
	_, err := client.Check(ctx, new(healthpb.HealthCheckRequest), grpc.Trailer(&trailer))
	s := status.Convert(err)
	switch s.Code() {
	case codes.OK:
	case codes.ResourceExhausted:
		assert.Equal(l.t, "the call is over its limit", s.Message())
		if assert.Len(l.t, s.Details(), 2) {
			assert.IsType(l.t, new(errdetails.RetryInfo), s.Details()[0])
			quota, ok := s.Details()[1].(*errdetails.QuotaFailure)
			if assert.True(l.t, ok) && assert.Len(l.t, quota.GetViolations(), 1) {
				v := quota.GetViolations()[0]
				assert.Equal(l.t, fmt.Sprintf(`the limit "second" of %d has too few permits left`, v.GetQuotaValue()),
					v.GetDescription())
				assert.Empty(l.t, v.GetSubject())
			}
		}
	case codes.Unavailable:
		assert.Equal(l.t, "calls cannot be admitted at the moment", s.Message())
		if assert.Len(l.t, s.Details(), 1) {
			assert.IsType(l.t, new(errdetails.RetryInfo), s.Details()[0])
		}
	default:
		assert.Fail(l.t, "status", "%v", err)
	}
	for name, values := range trailer {
		switch name {
		case "content-type", "grpc-status-details-bin", "grpc-retry-pushback-ms":
			assert.Len(l.t, values, 1)
		default:
			assert.Fail(l.t, "a trailer", "%s: %q", name, values)
		}
	}
}
