package grpclimit_test

import (
	"context"
	"errors"
	"sync"
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
	"github.com/rratelimiter/rratelimiter/limit"
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

// A RetryInfo pauses its limiter's name for all calls of the interceptor, and no other.
func TestRetryInfoPausesAll(t *testing.T) {
	quota := new(errdetails.QuotaFailure)
	for name, c := range map[string]struct {
		err   error
		pause time.Duration
	}{
		"exhausted":   {statusOf(codes.ResourceExhausted, quota, retryIn(7*time.Second)), 7 * time.Second},
		"unavailable": {statusOf(codes.Unavailable, retryIn(7*time.Second)), 7 * time.Second},
		"a year":      {statusOf(codes.ResourceExhausted, retryIn(365*24*time.Hour)), time.Hour},
		"an eternity": {statusOf(codes.ResourceExhausted, &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1 << 62}}), time.Hour},
		"zero":        {statusOf(codes.ResourceExhausted, retryIn(0)), 0},
		"below zero":  {statusOf(codes.ResourceExhausted, retryIn(-7*time.Second)), 0},
		"no delay":    {statusOf(codes.ResourceExhausted, new(errdetails.RetryInfo)), 0},
		"none":        {statusOf(codes.ResourceExhausted, quota), 0},
		"another":     {statusOf(codes.Internal, retryIn(7*time.Second)), 0},
		"no status":   {errors.New("no"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				refusing := true
				fails := func() error {
					if refusing {
						refusing = false
						return c.err
					}
					return nil
				}
				s := &service{unary: func(context.Context, *test.SimpleRequest) error { return fails() },
					stream: func(test.TestService_FullDuplexCallServer) error { return fails() }}
				on := serve(b, s)
				bucket := limit.TokenBucket{Capacity: 100, Refill: 1, Interval: time.Hour}
				for kind, ask := range map[string]func(calls test.TestServiceClient, host string, within time.Duration) error{
					"unary": func(calls test.TestServiceClient, host string, within time.Duration) error {
						return ask(b, calls, host, within)
					},
					"stream": func(calls test.TestServiceClient, host string, within time.Duration) error {
						ctx, cancel := context.WithTimeout(b.Context(), within)
						defer cancel()
						ss, err := calls.FullDuplexCall(to(ctx, host))
						if err == nil {
							if _, err = ss.Recv(); err.Error() == "EOF" {
								err = nil
							}
						}
						return err
					},
				} {
					refusing = true
					calls := limited(on, perHost(client, bucket))
					begin := time.Now()
					err := ask(calls, "one", time.Minute)
					assert.Equal(b, status.Code(c.err), status.Code(err), "the caller sees it")
					var all sync.WaitGroup
					for range 10 {
						all.Go(func() {
							assert.NoError(b, ask(calls, "one", 2*time.Hour), kind)
							assert.Equal(b, c.pause, time.Since(begin), kind)
						})
					}
					assert.NoError(b, ask(calls, "two", time.Minute))
					assert.Zero(b, time.Since(begin))
					if c.pause > 0 {
						assert.ErrorIs(b, ask(calls, "one", time.Second), context.DeadlineExceeded)
						assert.Zero(b, time.Since(begin), "it knows at once")
					}
					all.Wait()
				}
			})
		})
	}
}

// What an interceptor further in has not sent is no word of the server's.
func TestOwnRefusalsPauseNothing(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		inner := grpclimit.UnaryClientInterceptor(grpclimit.Each(client, "inner", grpclimit.ByMethod(), hour(1)), grpclimit.AtOnce())
		outer := grpclimit.UnaryClientInterceptor(perHost(client, hour(9)), grpclimit.AtOnce())
		c := serve(b, new(service)).dial(grpc.WithChainUnaryInterceptor(outer, inner))
		require.NoError(b, ask(b, c, "one", time.Minute))
		assert.ErrorIs(b, ask(b, c, "one", time.Minute), grpclimit.ErrNotSent)
		sent := b.Scripts.Load()
		assert.ErrorIs(b, ask(b, c, "one", time.Minute), grpclimit.ErrNotSent)
		assert.EqualValues(b, 2, b.Scripts.Load()-sent, "both were asked: the outer one was not paused")
	})
}

// A pause that begins while a call stands in line for a permit holds for it too, and the permit goes back.
func TestAPauseThatBeginsMeanwhile(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		answers := make(chan error, 2)
		c := limited(serve(b, &service{unary: func(context.Context, *test.SimpleRequest) error { return <-answers }}),
			perHost(client, limit.TokenBucket{Capacity: 1, Refill: 1, Interval: 6 * time.Second})) // the next permit but one is there after 12 s
		begin := time.Now()
		var calls sync.WaitGroup
		calls.Go(func() { _ = ask(b, c, "one", time.Minute) })
		redistest.Pass(time.Millisecond)
		calls.Go(func() {
			assert.NoError(b, ask(b, c, "one", time.Minute))
			assert.Equal(b, 10*time.Second, time.Since(begin).Truncate(time.Second))
		})
		redistest.Pass(time.Second - time.Millisecond)
		answers <- statusOf(codes.ResourceExhausted, retryIn(9*time.Second))
		answers <- nil
		calls.Wait()
	})
}
