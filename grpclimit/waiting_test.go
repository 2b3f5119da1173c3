package grpclimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestMaxWaiting_BoundReached_DeniesAtOnce, on a server, and on a client where it is given.
func TestMaxWaiting_BoundReached_DeniesAtOnce(t *testing.T) {
	bucket := limit.TokenBucket{Capacity: 1, Refill: 1, Interval: time.Second}
	for name, c := range map[string]struct {
		start func(b *redistest.Fixture, choose choice) test.TestServiceClient
		want  int64
	}{
		"server": {func(b *redistest.Fixture, choose choice) test.TestServiceClient {
			return unary(b, new(service), choose, grpclimit.Wait(time.Hour), grpclimit.MaxWaiting(3))
		}, 3},
		"server by default": {func(b *redistest.Fixture, choose choice) test.TestServiceClient {
			return unary(b, new(service), choose, grpclimit.Wait(time.Hour))
		}, grpclimit.DefaultMaxWaiting},
		"client": {func(b *redistest.Fixture, choose choice) test.TestServiceClient {
			return serve(b, new(service)).dial(grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(choose, grpclimit.MaxWaiting(3))))
		}, 3},
		"client by default": {func(b *redistest.Fixture, choose choice) test.TestServiceClient {
			return serve(b, new(service)).dial(grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(choose)))
		}, 1020},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				calls := c.start(b, grpclimit.All(limit.New(client, "a", bucket)))
				require.NoError(b, call(b.Context(), calls))
				var waits, denied atomic.Int64
				var all sync.WaitGroup
				ctx, leave := context.WithCancel(b.Context())
				for range min(c.want+20, 1020) {
					all.Go(func() {
						if err := call(ctx, calls); status.Code(err) == codes.ResourceExhausted {
							denied.Add(1)
						} else {
							waits.Add(1)
						}
					})
				}
				redistest.Pass(500 * time.Millisecond)
				assert.Equal(b, min(c.want+20, 1020)-c.want, denied.Load())
				leave()
				all.Wait()
				assert.Equal(b, c.want, waits.Load())
			})
		})
	}
}
