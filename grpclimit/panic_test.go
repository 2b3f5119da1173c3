package grpclimit_test

import (
	"context"
	"strings"
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
)

// A panic of the handler or of a callback reaches its caller.
func TestUnaryServerInterceptor_CallbackPanics_NextCallPasses(t *testing.T) {
	for _, where := range []string{"handler", "choose", "skip", "cost", "report", "subject", "changed"} {
		t.Run(where, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				var broken atomic.Bool
				breaks := func(here string) {
					if here == where && broken.Load() {
						panic(here)
					}
				}
				permits := int64(3)
				if where == "subject" {
					permits = 2
				}
				choose := perIP(client, hour(permits))
				s := &service{unary: func(context.Context, *test.SimpleRequest) error { breaks("handler"); return nil }}
				recovers := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any,
					err error) {
					defer func() {
						if p := recover(); p != nil {
							err = status.Errorf(codes.Internal, "%v", p)
						}
					}()
					return handler(ctx, req)
				}
				c := serve(b, s, grpc.ChainUnaryInterceptor(recovers, grpclimit.UnaryServerInterceptor(
					func(ctx context.Context, call grpclimit.Call) (grpclimit.Limiter, error) {
						breaks("choose")
						return choose(ctx, call)
					},
					grpclimit.Skip(func(context.Context, grpclimit.Call) bool { breaks("skip"); return false }),
					grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { breaks("cost"); return 1 }),
					grpclimit.Report(func(context.Context, grpclimit.Call, grpclimit.Outcome) { breaks("report") }),
					grpclimit.Subject(func(context.Context, grpclimit.Call) string { breaks("subject"); return "" }),
					grpclimit.OnFailure(grpclimit.Open), grpclimit.OnRedisChange(func(bool, error) { breaks("changed") }),
				))).dial()
				require.Equal(b, "OK", get(b, c))
				switch where {
				case "subject":
					require.Equal(b, "OK", get(b, c))
				case "changed":
					redistest.Pass(time.Minute)
					b.Latency.Store(int64(time.Minute))
				}
				broken.Store(true)
				assert.True(b, strings.HasPrefix(get(b, c), "Internal: "+where))
				broken.Store(false)
				b.Latency.Store(0)
				redistest.Pass(2 * time.Minute)
				if where == "subject" {
					assert.Contains(b, get(b, c), "ResourceExhausted")
				} else {
					assert.Equal(b, "OK", get(b, c))
				}
			})
		})
	}
}
