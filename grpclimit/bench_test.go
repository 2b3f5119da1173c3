package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
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

// BenchmarkDenied is a refusal from the denial cache, with its details, and one in the shadow, which has none.
func BenchmarkDenied(b *testing.B) {
	server := miniredis.RunT(b)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	defer redis.Close()
	client := rratelimiter.New(redis, rratelimiter.WithDenialCache(time.Hour))
	day := limit.FixedWindow{Permits: 1, Interval: 24 * time.Hour}
	limiter := limit.New(client, "denied", day)
	byIP := grpclimit.Each(client, "denied", grpclimit.ByIP(), day)
	remembered := func(ask func()) {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			before := server.CommandCount()
			if ask(); server.CommandCount() == before {
				return
			}
			if time.Now().After(deadline) {
				b.Fatal("denials are not answered from memory")
			}
		}
	}
	remembered(func() { _, _ = limiter.Take(b.Context(), 1) })
	remembered(func() { _, _ = limit.New(client, "denied:192.0.2.1", day).Take(b.Context(), 1) })
	before := server.CommandCount()
	b.Run("Take alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d, err := limiter.Take(b.Context(), 1); err != nil || d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("Shadow", func(b *testing.B) {
		benchmark(b, grpclimit.UnaryServerInterceptor(grpclimit.All(limiter), grpclimit.Policies(day), grpclimit.Shadow()), codes.OK)
	})
	b.Run("All", func(b *testing.B) {
		benchmark(b, grpclimit.UnaryServerInterceptor(grpclimit.All(limiter), grpclimit.Policies(day)), codes.ResourceExhausted)
	})
	b.Run("ByIP", func(b *testing.B) {
		benchmark(b, grpclimit.UnaryServerInterceptor(byIP), codes.ResourceExhausted)
	})
	// What a Client does to remember a denial may not have ended by then; a call that was not answered from memory would be a request.
	if sent := server.CommandCount() - before; sent > 100 {
		b.Fatalf("%d commands were sent", sent)
	}
}
