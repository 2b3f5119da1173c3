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
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

const anHour = "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 1h0m0s\n" +
	`QuotaFailure: subject "", description "the limit \"hour\" of 1 has too few permits left", quota_metric "permits", quota_id "hour", quota_value 1` +
	"\ngrpc-retry-pushback-ms: -1\n"

// docs/grpc.md shows the other statuses.
func TestUnaryServerInterceptor_UnknownPolicy_StatusIsComplete(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		quota := client.Limiter("of the operator")
		require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 1, Interval: time.Minute}))
		cost := int64(1)
		c := unary(f, new(service), grpclimit.All(quota),
			grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return cost }))
		require.Equal(t, "OK", get(f, c))
		assert.Contains(t, get(f, c), `QuotaFailure: subject "", description "the limit \"default\" of 1 has too few`)
		cost = 2
		assert.Contains(t, get(f, c), `"the call costs more than the limit \"default\" ever grants"`)
	})
}

// The handler sees the outcome of the innermost.
func TestUnaryServerInterceptor_SeveralInAChain_EachDecides(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error {
			o, limited := grpclimit.FromContext(ctx)
			assert.True(t, limited)
			assert.Equal(t, "some:192.0.2.1", o.Limiter)
			assert.EqualValues(t, 0, o.Decision.Remaining)
			return nil
		}}
		c := serve(f, s, grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(perIP(client, hour(10))),
			grpclimit.UnaryServerInterceptor(grpclimit.Each(client, "some", grpclimit.ByIP(), hour(1))))).dial()
		assert.Equal(t, "OK", get(f, c))
		assert.Equal(t, anHour, get(f, c), "one trailer, and the details of the one that denied")
	})
}

func TestStreamServerInterceptor_Start_TakesPermitsOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := new(service)
		c := serve(f, s, grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, hour(1)),
			grpclimit.Report(func(_ context.Context, call grpclimit.Call, _ limit.Outcome) {
				assert.Equal(t, grpclimit.Call{Method: "/grpc.testing.TestService/FullDuplexCall"}, call)
			})))).dial()
		answered, end := exchange(f, c, 5)
		assert.Equal(t, 5, answered)
		assert.Equal(t, "OK", end)
		answered, end = exchange(f, c, 5)
		assert.Zero(t, answered)
		assert.Equal(t, anHour, end)
		assert.EqualValues(t, 1, s.served.Load())
	})
}

func TestWait_CallerLeaves_StatusIsCanceled(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		server := newUnaryServer(guardtest.Settings{Client: client, Each: []limit.Policy{hour(1)}, Wait: 2 * time.Hour})
		assert.Equal(t, 200, server(t.Context(), "one").Status)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		assert.Equal(t, 499, server(ctx, "one").Status)
	})
}

func TestOptions_Invalid_PanicWithTheReason(t *testing.T) {
	guardtest.TestOptions(t, common)
	client := new(rratelimiter.Client)
	connected, _ := guardtest.Connect(t)
	guardtest.TestPanics(t, map[string]func(){
		"grpclimit: UnaryServerInterceptor: choose is nil":  func() { grpclimit.UnaryServerInterceptor(nil) },
		"grpclimit: StreamServerInterceptor: choose is nil": func() { grpclimit.StreamServerInterceptor(nil) },
		"grpclimit: UnaryClientInterceptor: choose is nil":  func() { grpclimit.UnaryClientInterceptor(nil) },
		"grpclimit: StreamClientInterceptor: choose is nil": func() { grpclimit.StreamClientInterceptor(nil) },
		`grpclimit: Each: name "api": the Key is nil`:       func() { grpclimit.Each(connected, "api", nil, hour(1)) },
		`grpclimit: Each: name "": rratelimiter: `:          func() { grpclimit.Each(client, "", grpclimit.ByIP(), hour(1)) },
	})
}

func TestServerInterceptors_HealthAndReflection_Pass(t *testing.T) {
	denies := grpclimit.All(fake.Deciding(func(context.Context) (d rratelimiter.Decision, err error) { return d, nil }))
	for method, exempt := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/grpc.health.v1.Health/Watch": true, "/grpc.health.v1.Health/List": true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"/shop.Orders/Create": false, "/grpc.health.v1.Health": false, "/grpc.health.v1.Health/Check/x": false,
		"/grpc.health.v1.HealthX/Check":  false,
		"/x/grpc.health.v1.Health/Check": false, "/grpc.reflection.x/ServerReflection": false,
		"grpc.health.v1.Health/Check": true,
	} {
		want := codes.ResourceExhausted
		if exempt {
			want = codes.OK
		}
		_, err := grpclimit.UnaryServerInterceptor(denies)(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
			func(context.Context, any) (any, error) { return nil, nil })
		assert.Equal(t, want, status.Code(err), method)
		err = grpclimit.StreamServerInterceptor(denies)(nil, &stream{ctx: t.Context()},
			&grpc.StreamServerInfo{FullMethod: method}, func(_ any, ss grpc.ServerStream) error {
				assert.IsType(t, new(stream), ss, "the stream of an earlier interceptor")
				return nil
			})
		assert.Equal(t, want, status.Code(err), method)
	}
}

// TestStreamServerInterceptor_UncomparableContext_Passes: the context of an earlier interceptor may have a
// type that cannot be compared.
func TestStreamServerInterceptor_UncomparableContext_Passes(t *testing.T) {
	type own struct {
		context.Context
		_ map[string]bool
	}
	for _, choose := range []func(context.Context, grpclimit.Call) (grpclimit.Limiter, error){
		grpclimit.All(nil), grpclimit.All(new(fake.Limiter)),
	} {
		err := grpclimit.StreamServerInterceptor(choose)(nil, &stream{ctx: own{Context: t.Context()}},
			&grpc.StreamServerInfo{FullMethod: "/a.B/C"}, func(any, grpc.ServerStream) error { return nil })
		require.NoError(t, err)
	}
}

// stream is a stream of a server without messages.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context { return s.ctx }

func (*stream) SetTrailer(metadata.MD) {}
