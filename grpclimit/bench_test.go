package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func bare(context.Context, any) (any, error) { return nil, nil }

func benchmark(b *testing.B, interceptor grpc.UnaryServerInterceptor, code codes.Code) {
	ctx := peer.NewContext(b.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}})
	ctx = grpc.NewContextWithServerTransportStream(ctx, discards{})
	info := &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Create"}
	var err error
	b.ReportAllocs()
	for b.Loop() {
		_, err = interceptor(ctx, nil, info, bare)
	}
	if status.Code(err) != code {
		b.Fatalf("answered %v, not %v", err, code)
	}
}

// discards is a call's transport that costs nothing.
type discards struct{}

func (discards) Method() string               { return "" }
func (discards) SetHeader(metadata.MD) error  { return nil }
func (discards) SendHeader(metadata.MD) error { return nil }
func (discards) SetTrailer(metadata.MD) error { return nil }

// BenchmarkBare is a handler behind an interceptor that does nothing.
func BenchmarkBare(b *testing.B) {
	benchmark(b, func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(ctx, req)
	}, codes.OK)
}

// BenchmarkNoLimiter is what an interceptor costs a call for which no limiter is chosen.
func BenchmarkNoLimiter(b *testing.B) {
	benchmark(b, grpclimit.UnaryServerInterceptor(grpclimit.All(nil)), codes.OK)
}

// BenchmarkDenied is a denial from the denial cache, with its details, and one of Shadow, which has
// none.
func BenchmarkDenied(b *testing.B) {
	client, fromMemory := guardtest.NewDenied(b, "denied", "denied:192.0.2.1")
	limiter := limit.New(client, "denied", guardtest.Day)
	run := func(name string, interceptor grpc.UnaryServerInterceptor, code codes.Code) {
		b.Run(name, func(b *testing.B) { fromMemory(b, func() { benchmark(b, interceptor, code) }) })
	}
	all, day := grpclimit.All(limiter), grpclimit.Policies(guardtest.Day)
	byIP := grpclimit.Each(client, "denied", grpclimit.ByIP(), guardtest.Day)
	run("Shadow", grpclimit.UnaryServerInterceptor(all, day, grpclimit.Shadow()), codes.OK)
	run("All", grpclimit.UnaryServerInterceptor(all, day), codes.ResourceExhausted)
	run("ByIP", grpclimit.UnaryServerInterceptor(byIP), codes.ResourceExhausted)
	b.Run("Take alone", func(b *testing.B) { fromMemory(b, func() { guardtest.BenchmarkTake(b, limiter) }) })
}
