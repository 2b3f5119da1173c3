package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestWait_ContextEnds_StatusNamesTheReason(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		limiter := grpclimit.UnaryServerInterceptor(perIP(client, limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}),
			grpclimit.Wait(time.Hour))
		ask := func(ctx context.Context) error {
			_, err := limiter(from(ctx, "192.0.2.1:1"), nil, &grpc.UnaryServerInfo{},
				func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
		require.NoError(t, ask(t.Context()))
		begin := time.Now()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		assert.Equal(t, "DeadlineExceeded: the call ended before it was admitted\n", received(t, ask(short), nil))
		assert.Zero(t, time.Since(begin), "it knows at once")
		leaves, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		assert.Equal(t, "Canceled: the call ended before it was admitted\n", received(t, ask(leaves), nil))
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestOptions_Invalid_PanicWithTheReason(t *testing.T) {
	guardtest.TestOptions(t, guardtest.Options[grpclimit.Option, grpclimit.FailureMode]{
		Package: "grpclimit", Wait: grpclimit.Wait, MaxWaiting: grpclimit.MaxWaiting, Spread: grpclimit.Spread,
		Deadline: grpclimit.Deadline, Local: grpclimit.Local, OnFailure: grpclimit.OnFailure,
		Policies: grpclimit.Policies, Named: grpclimit.Named,
	})
	client, none := new(rratelimiter.Client), limit.FixedWindow{}
	connected, _ := guardtest.Connect(t)
	guardtest.TestPanics(t, map[string]func(){
		"grpclimit: UnaryServerInterceptor: choose is nil":  func() { grpclimit.UnaryServerInterceptor(nil) },
		"grpclimit: StreamServerInterceptor: choose is nil": func() { grpclimit.StreamServerInterceptor(nil) },
		"grpclimit: UnaryClientInterceptor: choose is nil":  func() { grpclimit.UnaryClientInterceptor(nil) },
		"grpclimit: StreamClientInterceptor: choose is nil": func() { grpclimit.StreamClientInterceptor(nil) },
		`grpclimit: Each: name "api": the Key is nil`:       func() { grpclimit.Each(connected, "api", nil, hour(1)) },
		`grpclimit: Each: name "": rratelimiter: `:          func() { grpclimit.Each(client, "", grpclimit.ByIP(), hour(1)) },
		"grpclimit: Describe: rratelimiter: invalid rate: ": func() { grpclimit.Describe(grpclimit.Named("x", none)) },
	})
}

func TestHealthAndReflection_CallsOfServers_PassUnlessLimited(t *testing.T) {
	denies := grpclimit.All(guardtest.Fake(func(context.Context, int64) (rratelimiter.Decision, error) {
		return rratelimiter.Decision{}, nil
	}))
	for method, exempt := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/grpc.health.v1.Health/Watch": true, "/grpc.health.v1.Health/List": true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"/shop.Orders/Create": false, "/grpc.health.v1.Health": false, "/grpc.health.v1.Health/Check/x": false,
		"/grpc.health.v1.HealthX/Check":  false,
		"/x/grpc.health.v1.Health/Check": false, "/grpc.reflection.x/ServerReflection": false,
		"grpc.health.v1.Health/Check": true,
	} {
		for _, opts := range [][]grpclimit.Option{nil, {grpclimit.HealthAndReflection()}} {
			want := codes.ResourceExhausted
			if exempt && opts == nil {
				want = codes.OK
			}
			_, err := grpclimit.UnaryServerInterceptor(denies, opts...)(t.Context(), nil,
				&grpc.UnaryServerInfo{FullMethod: method},
				func(context.Context, any) (any, error) { return nil, nil })
			assert.Equal(t, want, status.Code(err), method)
			err = grpclimit.StreamServerInterceptor(denies, opts...)(nil, &stream{ctx: t.Context()},
				&grpc.StreamServerInfo{FullMethod: method},
				func(any, grpc.ServerStream) error { return nil })
			assert.Equal(t, want, status.Code(err), method)
		}
	}
}

// stream is a stream of a server without messages.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context { return s.ctx }

func (*stream) SetTrailer(metadata.MD) {}

type key struct{}

// Settle is applied before the next message is received.
func TestSettle_EachMessage_SettlesTheLastOne(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			_, limited := grpclimit.FromContext(ss.Context())
			assert.False(t, limited, "nothing was received")
			for i, c := range []struct{ remaining, cost int64 }{{9, 1}, {8, 0}, {8, 4}, {4, 2}} {
				_, err := ss.Recv()
				assert.NoError(t, err)
				o, limited := grpclimit.FromContext(context.WithValue(ss.Context(), key{}, i))
				assert.True(t, limited)
				assert.Equal(t, c.remaining, o.Decision.Remaining, "message %d", i)
				if i > 0 {
					assert.NoError(t, grpclimit.Settle(ss.Context(), c.cost))
				}
			}
			return nil
		}}
		calls := serve(f, s,
			grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, hour(10)), grpclimit.EachMessage()))).dial()
		ss, err := calls.FullDuplexCall(t.Context())
		require.NoError(t, err)
		for range 4 {
			require.NoError(t, ss.Send(new(test.StreamingOutputCallRequest)))
		}
		_, _ = ss.Recv()
		d, err := limit.New(client, "api:192.0.2.1", hour(10)).Peek(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, d[0].Remaining)
	})
}
