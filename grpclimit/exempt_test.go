package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestHealthAndReflection_CallsOfServers_PassUnlessLimited(t *testing.T) {
	for method, exempt := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/grpc.health.v1.Health/Watch": true, "/grpc.health.v1.Health/List": true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"/shop.Orders/Create": false, "/grpc.health.v1.Health": false, "/grpc.health.v1.Health/Check/x": false,
		"/grpc.health.v1.HealthX/Check":  false,
		"/x/grpc.health.v1.Health/Check": false, "/grpc.reflection.x/ServerReflection": false,
		"grpc.health.v1.Health/Check": true,
	} {
		guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
			denies := grpclimit.All(guardtest.Fake(func(context.Context, int64) (rratelimiter.Decision, error) {
				return rratelimiter.Decision{RetryAfter: time.Second}, nil
			}))
			for _, opts := range [][]grpclimit.Option{nil, {grpclimit.HealthAndReflection()}} {
				want := codes.ResourceExhausted
				if exempt && opts == nil {
					want = codes.OK
				}
				_, err := grpclimit.UnaryServerInterceptor(denies, opts...)(b.Context(), nil,
					&grpc.UnaryServerInfo{FullMethod: method},
					func(context.Context, any) (any, error) { return nil, nil })
				assert.Equal(b, want, status.Code(err), method)
				err = grpclimit.StreamServerInterceptor(denies, opts...)(nil, &stream{ctx: b.Context()},
					&grpc.StreamServerInfo{FullMethod: method},
					func(any, grpc.ServerStream) error { return nil })
				assert.Equal(b, want, status.Code(err), method)
			}
		})
	}
}

// stream is a stream of a server without messages.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context { return s.ctx }

func (*stream) SetTrailer(metadata.MD) {}
