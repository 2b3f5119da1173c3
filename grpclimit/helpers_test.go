package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
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
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// choice chooses the limiter of a call.
type choice = func(context.Context, grpclimit.Call) (grpclimit.Limiter, error)

// hour returns a window of an hour.
func hour(permits int64) limit.Policy {
	return limit.FixedWindow{Permits: permits, Interval: time.Hour}
}

// perIP limits each client.
func perIP(client *rratelimiter.Client, policies ...limit.Policy) choice {
	return grpclimit.Each(client, "api", grpclimit.ByIP(), policies...)
}

// service is a limited service. A call without a function has an empty answer.
type service struct {
	test.UnimplementedTestServiceServer
	unary  func(context.Context, *test.SimpleRequest) error
	stream func(test.TestService_FullDuplexCallServer) error
	served atomic.Int64
}

func (s *service) UnaryCall(ctx context.Context, r *test.SimpleRequest) (*test.SimpleResponse, error) {
	s.served.Add(1)
	if s.unary == nil {
		return new(test.SimpleResponse), nil
	}
	return new(test.SimpleResponse), s.unary(ctx, r)
}

func (s *service) EmptyCall(context.Context, *test.Empty) (*test.Empty, error) {
	return new(test.Empty), nil
}

func (s *service) FullDuplexCall(ss test.TestService_FullDuplexCallServer) error {
	s.served.Add(1)
	if s.stream == nil {
		return echo(ss)
	}
	return s.stream(ss)
}

// echo answers each message.
func echo(ss test.TestService_FullDuplexCallServer) error {
	for {
		if _, err := ss.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := ss.Send(new(test.StreamingOutputCallResponse)); err != nil {
			return err
		}
	}
}

// server is a grpc server on the fake clock.
type server struct {
	t        *testing.T
	listener *redistest.Listener
}

// serve serves on the fake clock until its end. Interceptors are options.
func serve(f *redistest.Fixture, s test.TestServiceServer, opts ...grpc.ServerOption) *server {
	listener := redistest.NewListener()
	g := grpc.NewServer(opts...)
	test.RegisterTestServiceServer(g, s)
	go func() { _ = g.Serve(listener) }()
	f.Cleanup(g.Stop)
	return &server{f.T, listener}
}

// dial connects a client.
func (s *server) dial(opts ...grpc.DialOption) test.TestServiceClient {
	conn, err := grpc.NewClient("passthrough:///server",
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return s.listener.Dial(), nil }))...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	return test.NewTestServiceClient(conn)
}

// unary is a server whose unary calls are limited, and a client of it.
func unary(f *redistest.Fixture, s *service, choose choice, opts ...grpclimit.Option) test.TestServiceClient {
	return serve(f, s, grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(choose, opts...))).dial()
}

// call makes a unary call.
func call(ctx context.Context, c test.TestServiceClient, opts ...grpc.CallOption) error {
	_, err := c.UnaryCall(ctx, new(test.SimpleRequest), opts...)
	return err
}

// received returns all that a client receives: the code, the message, the details and the trailer.
func received(t assert.TestingT, err error, trailer metadata.MD) string {
	s, ok := status.FromError(err)
	assert.True(t, ok, "%v", err)
	if s.Code() == codes.OK {
		return "OK"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%v: %s\n", s.Code(), s.Message())
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			fmt.Fprintf(&text, "RetryInfo: retry_delay %v\n", d.GetRetryDelay().AsDuration())
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				fmt.Fprintf(&text, "QuotaFailure: subject %q, description %q, quota_metric %q, quota_id %q, quota_value %d\n",
					v.GetSubject(), v.GetDescription(), v.GetQuotaMetric(), v.GetQuotaId(), v.GetQuotaValue())
			}
		default:
			assert.Fail(t, "a detail", "%T: %v", d, d)
		}
	}
	for name, values := range trailer {
		if name != "content-type" && name != "grpc-status-details-bin" {
			fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(values, ", "))
		}
	}
	return text.String()
}

// get makes a unary call and returns what the client receives.
func get(f *redistest.Fixture, c test.TestServiceClient) string { return getOf(f, c, 0) }

// getOf makes a unary call with a response size.
func getOf(f *redistest.Fixture, c test.TestServiceClient, size int32) string {
	var trailer metadata.MD
	_, err := c.UnaryCall(f.Context(), &test.SimpleRequest{ResponseSize: size}, grpc.Trailer(&trailer))
	return received(f, err, trailer)
}

// exchange sends messages on a new stream. It returns how many were answered, and what the client
// receives at the end.
func exchange(f *redistest.Fixture, c test.TestServiceClient, messages int) (answered int, end string) {
	ss, err := c.FullDuplexCall(f.Context())
	require.NoError(f, err)
	for range messages {
		if err := ss.Send(new(test.StreamingOutputCallRequest)); err != nil {
			break
		}
		if _, err = ss.Recv(); err != nil {
			return answered, received(f, err, ss.Trailer())
		}
		answered++
	}
	require.NoError(f, ss.CloseSend())
	if _, err = ss.Recv(); errors.Is(err, io.EOF) {
		err = nil
	}
	return answered, received(f, err, ss.Trailer())
}

// from is the context of a call from an address, with pairs of metadata.
func from(ctx context.Context, addr string, pairs ...string) context.Context {
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))})
	return metadata.NewIncomingContext(ctx, metadata.Pairs(pairs...))
}
