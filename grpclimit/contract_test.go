package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

const method = "/shop.Orders/Create"

// middleware is this package as the contract of all middleware calls it.
var middleware = guardtest.Middleware{
	Server:      newUnaryServer,
	Client:      newClient,
	FromContext: grpclimit.FromContext,
	Settle:      grpclimit.Settle,
	ErrNotSent:  grpclimit.ErrNotSent,
	AddressKey: func(peerAddr netip.AddrPort, a guardtest.Address, headers [][2]string) (string, error) {
		md := make(metadata.MD)
		for _, h := range headers {
			md.Append(h[0], h[1])
		}
		ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(peerAddr)})
		ctx = metadata.NewIncomingContext(ctx, md)
		if a.Header == "" && a.IPv6Bits+a.IPv4Bits == 0 {
			return grpclimit.ByIP(a.Trusted...)(ctx, grpclimit.Call{})
		}
		return grpclimit.Address(a).Key(ctx, grpclimit.Call{})
	},
}

func TestUnaryServerInterceptor_SharedContract_IsKept(t *testing.T) {
	guardtest.TestServerWiring(t, middleware)
}

func TestStreamServerInterceptor_SharedContract_IsKept(t *testing.T) {
	streams := middleware
	streams.Server = newStreamServer
	guardtest.TestServerWiring(t, streams)
}

func TestUnaryClientInterceptor_SharedContract_IsKept(t *testing.T) {
	guardtest.TestClientWiring(t, middleware)
}

func TestUnaryServerInterceptor_OddCalls_GetNoMoreThanPlainOnes(t *testing.T) {
	guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByBinary, guardtest.ByClient},
		func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
			key := map[string]grpclimit.Key{
				guardtest.ByHeader: grpclimit.ByMetadata("Key"), guardtest.ByBinary: grpclimit.ByMetadata("Key-Bin"),
				guardtest.ByClient: grpclimit.ByIP(netip.MustParsePrefix("10.0.0.1/32")),
			}[by]
			limited := grpclimit.UnaryServerInterceptor(grpclimit.Each(client, "api", key, hour(1)))
			return func(c guardtest.Choice) bool {
				var pairs []string
				for _, h := range c.Headers {
					pairs = append(pairs, h[0], h[1])
				}
				_, err := limited(from(context.Background(), c.Peer, pairs...), nil, &grpc.UnaryServerInfo{FullMethod: c.RPC},
					func(context.Context, any) (any, error) { return nil, nil })
				return err == nil
			}
		})
}

func BenchmarkServer(b *testing.B) { guardtest.BenchmarkServer(b, middleware) }

func FuzzUntrusted(f *testing.F) { guardtest.FuzzUntrusted(f, middleware) }

func newUnaryServer(s guardtest.Settings) guardtest.Server {
	limited := grpclimit.UnaryServerInterceptor(choose(s), options(s)...)
	return func(ctx context.Context, key string) guardtest.Reply {
		_, err := limited(incoming(ctx, key), nil, &grpc.UnaryServerInfo{FullMethod: method},
			func(ctx context.Context, _ any) (any, error) {
				handle(s, ctx)
				return nil, nil
			})
		return replyOf(err)
	}
}

func newStreamServer(s guardtest.Settings) guardtest.Server {
	limited := grpclimit.StreamServerInterceptor(choose(s), options(s)...)
	return func(ctx context.Context, key string) guardtest.Reply {
		ss, info := &stream{ctx: incoming(ctx, key)}, &grpc.StreamServerInfo{FullMethod: method}
		return replyOf(limited(nil, ss, info, func(_ any, ss grpc.ServerStream) error {
			handle(s, ss.Context())
			return nil
		}))
	}
}

func newClient(s guardtest.Settings, upstream func() guardtest.Reply) guardtest.Client {
	limited := grpclimit.UnaryClientInterceptor(choose(s), options(s)...)
	return func(ctx context.Context, key string) (guardtest.Reply, error) {
		ctx = metadata.AppendToOutgoingContext(ctx, "key", key)
		err := limited(ctx, method, nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				reply := upstream()
				if code := codeOf[reply.Status]; reply.RetryAfter > 0 {
					return statusOf(code, retryIn(reply.RetryAfter))
				} else {
					return status.Error(code, "")
				}
			})
		if errors.Is(err, grpclimit.ErrNotSent) {
			return guardtest.Reply{}, err
		}
		return replyOf(err), nil
	}
}

func handle(s guardtest.Settings, ctx context.Context) {
	if s.Handler != nil {
		s.Handler(ctx)
	}
}

func incoming(ctx context.Context, key string) context.Context {
	md := make(metadata.MD)
	if key != "" {
		md.Set("key", key)
	}
	return metadata.NewIncomingContext(ctx, md)
}

// codeOf maps statuses of HTTP to codes.
var codeOf = map[int]codes.Code{
	200: codes.OK, 400: codes.InvalidArgument, 429: codes.ResourceExhausted, 499: codes.Canceled,
	500: codes.Internal, 503: codes.Unavailable,
}

func replyOf(err error) guardtest.Reply {
	if err == nil {
		return guardtest.Reply{Status: 200}
	}
	s := status.Convert(err)
	reply := guardtest.Reply{Text: s.Proto().String()}
	for httpStatus, code := range codeOf {
		if code == s.Code() {
			reply.Status = httpStatus
		}
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			reply.RetryAfter = info.GetRetryDelay().AsDuration()
		}
	}
	return reply
}

func choose(s guardtest.Settings) choice {
	switch {
	case s.Err != nil:
		return func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) { return nil, s.Err }
	case s.Each != nil:
		return grpclimit.Each(s.Client, "api", grpclimit.ByMetadata("key"), s.Each...)
	case s.Initial != (rratelimiter.Rate{}):
		return grpclimit.EachRedisson(s.Client, "api:", grpclimit.ByMetadata("key"), s.Initial)
	}
	return grpclimit.All(s.Limiter)
}

// common are the options that httplimit has too.
var common = guardtest.Options[grpclimit.Option]{
	Package: "grpclimit", Wait: grpclimit.Wait, Spread: grpclimit.Spread, Deadline: grpclimit.Deadline,
	MaxWaiting: grpclimit.MaxWaiting, OnFailure: grpclimit.OnFailure, OnRedisChange: grpclimit.OnRedisChange,
	Shadow: grpclimit.Shadow, Random: grpclimit.WithRandom,
}

func options(s guardtest.Settings) []grpclimit.Option {
	opts := common.Of(s, nil, grpclimit.Cost(nil), grpclimit.Skip(nil), grpclimit.Report(nil),
		grpclimit.OnSettleError(nil)) // nil has no effect
	if s.Cost != nil {
		opts = append(opts, grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return s.Cost() }))
	}
	if s.Skip != nil {
		opts = append(opts, grpclimit.Skip(func(context.Context, grpclimit.Call) bool { return s.Skip() }))
	}
	if s.Report != nil {
		opts = append(opts,
			grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o limit.Outcome) { s.Report(o) }))
	}
	if s.OnSettleError != nil {
		opts = append(opts,
			grpclimit.OnSettleError(func(_ context.Context, _ grpclimit.Call, err error) { s.OnSettleError(err) }))
	}
	return opts
}
