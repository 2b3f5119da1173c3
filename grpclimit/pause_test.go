package grpclimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func statusOf(code codes.Code, details ...protoadapt.MessageV1) error {
	s, err := status.New(code, "theirs").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func retryIn(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

// Streams pause, and wait for the end of a pause, at their start.
func TestRetryInfo_AnyStatus_PausesUntilThen(t *testing.T) {
	quota := new(errdetails.QuotaFailure)
	eternity := &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1 << 62}}
	for name, c := range map[string]struct {
		err   error
		pause time.Duration
	}{
		"behind another detail": {statusOf(codes.ResourceExhausted, quota, retryIn(7*time.Second)), 7 * time.Second},
		"an eternity":           {statusOf(codes.ResourceExhausted, eternity), time.Hour},
		"zero":                  {statusOf(codes.ResourceExhausted, retryIn(0)), 0},
		"below zero":            {statusOf(codes.ResourceExhausted, retryIn(-7*time.Second)), 0},
		"no delay":              {statusOf(codes.ResourceExhausted, new(errdetails.RetryInfo)), 0},
		"another detail alone":  {statusOf(codes.ResourceExhausted, quota), 0},
		"no status":             {errors.New("no"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				on := serve(b, &service{
					unary:  func(context.Context, *test.SimpleRequest) error { return c.err },
					stream: func(test.TestService_FullDuplexCallServer) error { return c.err },
				})
				for kind, send := range map[string]func(calls test.TestServiceClient) error{
					"unary": func(calls test.TestServiceClient) error { return ask(b, calls, "one", 2*time.Hour) },
					"stream": func(calls test.TestServiceClient) error {
						ss, err := calls.FullDuplexCall(to(b.Context(), "one"))
						require.NoError(b, err)
						_, err = ss.Recv()
						return err
					},
				} {
					calls := limited(on, perHost(client, hour(4)))
					begin := time.Now()
					for range 2 {
						assert.Equal(b, status.Code(c.err), status.Code(send(calls)), "the caller gets the status")
					}
					assert.Equal(b, c.pause, time.Since(begin), kind)
				}
			})
		})
	}
}

// A call that an inner interceptor does not send gets no answer of the server.
func TestRetryInfo_OfAnInnerInterceptor_PausesNothing(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		inner := grpclimit.UnaryClientInterceptor(grpclimit.Each(client, "inner", grpclimit.ByMethod(), hour(1)),
			grpclimit.AtOnce())
		outer := grpclimit.UnaryClientInterceptor(perHost(client, hour(9)), grpclimit.AtOnce())
		c := serve(b, new(service)).dial(grpc.WithChainUnaryInterceptor(outer, inner))
		require.NoError(b, ask(b, c, "one", time.Minute))
		assert.ErrorIs(b, ask(b, c, "one", time.Minute), grpclimit.ErrNotSent)
		sent := b.Scripts.Load()
		assert.ErrorIs(b, ask(b, c, "one", time.Minute), grpclimit.ErrNotSent)
		assert.EqualValues(b, 2, b.Scripts.Load()-sent, "both were asked: the outer one was not paused")
	})
}
