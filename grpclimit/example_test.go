package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// connect opens a Client on an in-memory Redis, in place of
//
//	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := rratelimiter.New(redis)
//
// Its clock stands still, so that what examples print does not depend on the machine.
var connect = guardtest.Example

// unhurried is for machines that have other things to do than to run examples.
var unhurried = grpclimit.Deadline(time.Minute)

// start serves a service on a socket, and connects a client to it.
func start(server []grpc.ServerOption, client ...grpc.DialOption) (test.TestServiceClient, func()) {
	return startService(new(service), server, client...)
}

func startService(of *service, server []grpc.ServerOption, client ...grpc.DialOption) (test.TestServiceClient, func()) {
	s := grpc.NewServer(server...)
	test.RegisterTestServiceServer(s, of)
	conn, stop := connectTo(s, client...)
	return test.NewTestServiceClient(conn), stop
}

func connectTo(s *grpc.Server, opts ...grpc.DialOption) (*grpc.ClientConn, func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = s.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(),
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	return conn, func() { conn.Close(); s.Stop() }
}

// limitedBy is the option of a server whose unary calls are limited.
func limitedBy(choose func(context.Context, grpclimit.Call) (grpclimit.Limiter, error), opts ...grpclimit.Option) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(choose, append(opts, unhurried)...))}
}

var noContext = context.Background()

// Two calls an hour for each client and method.
func Example() {
	client := connect()

	calls := grpclimit.Each(client, "api", grpclimit.Combined(grpclimit.ByIP(), grpclimit.ByMethod()), limit.FixedWindow{Permits: 2, Interval: time.Hour})
	server := grpc.NewServer(
		grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(calls, grpclimit.Deadline(time.Second))),
		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(calls, grpclimit.Deadline(time.Second))))

	test.RegisterTestServiceServer(server, new(service))
	conn, stop := connectTo(server)
	defer stop()
	for range 3 {
		err := call(noContext, test.NewTestServiceClient(conn))
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			fmt.Printf("%T\n", detail)
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// *errdetails.RetryInfo
	// *errdetails.QuotaFailure
}

// A call a minute for each tenant, under a name for clients to see.
func ExampleEach() {
	client := connect()

	perTenant := grpclimit.Each(client, "tenant", grpclimit.ByMetadata("tenant"),
		limit.Named("calls", limit.SlidingWindow{Permits: 1, Interval: time.Minute}))
	c, stop := start(limitedBy(perTenant))
	defer stop()
	for _, tenant := range []string{"gold", "gold", "iron"} {
		err := call(metadata.AppendToOutgoingContext(noContext, "tenant", tenant), c)
		fmt.Println(tenant, status.Code(err))
	}
	fmt.Println(status.Code(call(noContext, c)), "without a tenant")
	// Output:
	// gold OK
	// gold ResourceExhausted
	// iron OK
	// InvalidArgument without a tenant
}

// A chooser is a func: one method has a limit, the others have none.
func ExampleUnaryServerInterceptor() {
	client := connect()

	orders := limit.New(client, "orders", limit.FixedWindow{Permits: 1, Interval: time.Hour})
	choose := func(_ context.Context, call grpclimit.Call) (grpclimit.Limiter, error) {
		if call.Method == test.TestService_UnaryCall_FullMethodName {
			return orders, nil
		}
		return nil, nil
	}
	c, stop := start([]grpc.ServerOption{grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(choose, unhurried))})
	defer stop()
	for range 2 {
		_, err := c.EmptyCall(noContext, new(test.Empty))
		fmt.Println(status.Code(call(noContext, c)), status.Code(err))
	}
	// Output:
	// OK OK
	// ResourceExhausted OK
}

// A handler limits the messages of its streams: three an hour for each client, in all streams together.
// As an interceptor, StreamServerInterceptor limits streams at their start.
func ExampleStreamServerInterceptor_messages() {
	client := connect()

	perClient := limit.NewKeyed(client, "messages", limit.FixedWindow{Permits: 3, Interval: time.Hour})
	receive := func(ss test.TestService_FullDuplexCallServer) error {
		if _, err := ss.Recv(); err != nil {
			return err
		}
		address, err := grpclimit.ByIP()(ss.Context(), grpclimit.Call{})
		if err != nil {
			return err
		}
		free, err := perClient.TryAcquire(ss.Context(), address, 1)
		if err != nil {
			return status.Error(codes.Unavailable, "messages cannot be admitted at the moment")
		} else if !free {
			return status.Error(codes.ResourceExhausted, "the message is over its limit")
		}
		return ss.Send(new(test.StreamingOutputCallResponse))
	}
	c, stop := startService(&service{stream: func(ss test.TestService_FullDuplexCallServer) error {
		for {
			if err := receive(ss); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}}, nil)
	defer stop()
	for range 2 {
		stream, err := c.FullDuplexCall(noContext)
		if err != nil {
			panic(err)
		}
		for range 2 {
			_ = stream.Send(new(test.StreamingOutputCallRequest)) // Recv returns the result
			_, err = stream.Recv()
			fmt.Println(status.Code(err))
		}
		_ = stream.CloseSend()
	}
	// Output:
	// OK
	// OK
	// OK
	// ResourceExhausted
}

// target is the key of a client's server.
func target(_ context.Context, call grpclimit.Call) (string, error) { return call.Target, nil }

// Two calls an hour to each server, for all programs together. StreamClientInterceptor does so for streams.
func ExampleUnaryClientInterceptor() {
	client := connect()

	perServer := grpclimit.Each(client, "calls", target, limit.FixedWindow{Permits: 2, Interval: time.Hour})
	c, stop := start(nil, grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(perServer, unhurried)))
	defer stop()
	for range 3 {
		ctx, cancel := context.WithTimeout(noContext, time.Minute)
		defer cancel()
		err := call(ctx, c) // the third at once: there is no permit within the minute that the context lasts
		fmt.Println(status.Code(err), errors.Is(err, grpclimit.ErrNotSent))
	}
	// Output:
	// OK false
	// OK false
	// DeadlineExceeded true
}

// A load balancer writes clients' addresses into metadata of its own.
func ExampleAddress() {
	clients := grpclimit.Address{
		Trusted:  []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Header:   "x-real-ip",
		IPv6Bits: 48,
	}
	ctx := peer.NewContext(noContext, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-real-ip", "2001:db8:1:2::3", "x-forwarded-for", "203.0.113.9"))
	fmt.Println(clients.Key(ctx, grpclimit.Call{}))
	fmt.Println(clients.Client(ctx))
	// Output:
	// 2001:db8:1::/48 <nil>
	// 2001:db8:1:2::3 <nil>
}

func ExampleCombined() {
	perMethodAndTarget := grpclimit.Combined(grpclimit.ByMethod(), target)
	fmt.Println(perMethodAndTarget(noContext, grpclimit.Call{Method: "/a.B/C", Outgoing: true, Target: "dns:///b.example"}))
	// Output: /a.B/C|dns:///b.example <nil>
}

// A call costs as many permits as it asks for bytes.
func ExampleCost() {
	client := connect()

	bytes := grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
		return int64(call.Message.(*test.SimpleRequest).GetResponseSize())
	})
	perClient := grpclimit.Each(client, "bytes", grpclimit.ByIP(),
		limit.TokenBucket{Capacity: 3, Refill: 1, Interval: time.Minute})
	c, stop := start(limitedBy(perClient, bytes))
	defer stop()
	for _, size := range []int32{0, 2, 2, 4} {
		_, err := c.UnaryCall(noContext, &test.SimpleRequest{ResponseSize: size})
		fmt.Println(status.Code(err), len(status.Convert(err).Details()))
	}
	// Output:
	// OK 0
	// OK 0
	// ResourceExhausted 2
	// ResourceExhausted 1
}

// Calls that fail alone count.
func ExampleSettle() {
	client := connect()

	// In place of yours.
	handler := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		answer, err := next(ctx, req)
		if req.(*test.SimpleRequest).GetFillUsername() {
			err = status.Error(codes.NotFound, "no such user")
		}
		if err == nil {
			err = grpclimit.Settle(ctx, 0)
		}
		return answer, err
	}
	failed := grpclimit.Each(client, "failed", grpclimit.ByIP(), limit.FixedWindow{Permits: 1, Interval: time.Hour})
	c, stop := start([]grpc.ServerOption{grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(failed, unhurried,
		grpclimit.OnSettleError(func(_ context.Context, _ grpclimit.Call, err error) { fmt.Println(err) })), handler)})
	defer stop()
	for _, guesses := range []bool{false, false, true, false} {
		_, err := c.UnaryCall(noContext, &test.SimpleRequest{FillUsername: guesses})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// NotFound
	// ResourceExhausted
}
