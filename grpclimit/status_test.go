package grpclimit_test

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
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

func TestRetryInfo_AnyStatus_IsRead(t *testing.T) {
	quota := new(errdetails.QuotaFailure)
	eternity := &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1 << 62}}
	for name, c := range map[string]struct {
		err     error
		pause   time.Duration
		refused bool
	}{
		"behind another detail": {statusOf(codes.ResourceExhausted, quota, retryIn(7*time.Second)), 7 * time.Second, true},
		"an eternity":           {statusOf(codes.ResourceExhausted, eternity), math.MaxInt64, true},
		"zero":                  {statusOf(codes.ResourceExhausted, retryIn(0)), 0, true},
		"below zero":            {statusOf(codes.ResourceExhausted, retryIn(-7*time.Second)), 0, true},
		"no delay":              {statusOf(codes.ResourceExhausted, new(errdetails.RetryInfo)), 0, true},
		"another detail alone":  {statusOf(codes.ResourceExhausted, quota), 0, true},
		"unavailable":           {statusOf(codes.Unavailable), 0, false},
		"another code":          {statusOf(codes.Aborted, retryIn(7*time.Second)), 0, false},
	} {
		pause, refused := grpclimit.RetryInfo()(status.Convert(c.err))
		assert.Equal(t, c.pause, pause, name)
		assert.Equal(t, c.refused, refused, name)
	}
}

// Statuses of choice pause: with a RetryInfo, or with a time of one's own for those that have none. Streams
// wait for the end of a pause at their start.
func TestPauseOn_ChosenStatuses_Pause(t *testing.T) {
	own := grpclimit.PauseOn(grpclimit.RetryInfo(codes.Aborted), func(s *status.Status) (time.Duration, bool) {
		return 3 * time.Second, s.Code() == codes.Unavailable
	})
	for name, c := range map[string]struct {
		opts  []grpclimit.Option
		err   error
		pause time.Duration
	}{
		"by default":          {nil, statusOf(codes.Unavailable, retryIn(7*time.Second)), 7 * time.Second},
		"chosen code":         {[]grpclimit.Option{own}, statusOf(codes.Aborted, retryIn(7*time.Second)), 7 * time.Second},
		"not chosen":          {[]grpclimit.Option{own}, statusOf(codes.ResourceExhausted, retryIn(7*time.Second)), 0},
		"a time of one's own": {[]grpclimit.Option{own}, statusOf(codes.Unavailable), 3 * time.Second},
		"none": {
			[]grpclimit.Option{grpclimit.PauseOn()}, statusOf(codes.Unavailable, retryIn(7*time.Second)), 0,
		},
	} {
		for kind, send := range map[string]func(ctx context.Context, calls test.TestServiceClient) error{
			"unary": func(ctx context.Context, calls test.TestServiceClient) error { return call(ctx, calls) },
			"stream": func(ctx context.Context, calls test.TestServiceClient) error {
				ss, err := calls.FullDuplexCall(ctx)
				require.NoError(t, err)
				return redistest.Err(ss.Recv())
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
					calls := limited(serve(f, &service{
						unary:  func(context.Context, *test.SimpleRequest) error { return c.err },
						stream: func(test.TestService_FullDuplexCallServer) error { return c.err },
					}), perHost(client, hour(4)), c.opts...)
					begin := time.Now()
					for range 2 {
						assert.Equal(t, status.Code(c.err), status.Code(send(to(t.Context(), "one"), calls)))
					}
					assert.Equal(t, c.pause, time.Since(begin))
				})
			})
		}
	}
}

// A call that an inner interceptor does not send gets no answer of the server.
func TestRetryInfo_OfAnInnerInterceptor_PausesNothing(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		inner := grpclimit.UnaryClientInterceptor(grpclimit.Each(client, "inner", grpclimit.ByMethod(), hour(1)),
			grpclimit.Wait(time.Second))
		outer := grpclimit.UnaryClientInterceptor(perHost(client, hour(9)), grpclimit.Wait(time.Second))
		c := serve(f, new(service)).dial(grpc.WithChainUnaryInterceptor(outer, inner))
		require.NoError(t, ask(f, c, "one", time.Minute))
		assert.ErrorIs(t, ask(f, c, "one", time.Minute), grpclimit.ErrNotSent)
		sent := f.Scripts.Load()
		assert.ErrorIs(t, ask(f, c, "one", time.Minute), grpclimit.ErrNotSent)
		assert.EqualValues(t, 2, f.Scripts.Load()-sent, "both were asked: the outer one was not paused")
	})
}

// retries is the service config of a client that retries, by itself too early.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
}}]}`

// A client with a retry policy waits as long as the trailer of the denial says.
func TestRetryPolicy_DeniedCall_PassesAtFirstRetry(t *testing.T) {
	for name, policy := range map[string]limit.Policy{
		"window": limit.FixedWindow{Permits: 1, Interval: 2500 * time.Millisecond},
		"bucket": limit.TokenBucket{Capacity: 1, Refill: 3, Interval: 10 * time.Second},
		"minute": limit.FixedWindow{Permits: 1, Interval: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				var denied atomic.Int64
				report := grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o limit.Outcome) {
					if o.Result == limit.Rejected {
						denied.Add(1)
					}
				})
				c := serve(f, new(service), grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(perIP(client, policy), report)),
					grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, policy), report)),
				).dial(grpc.WithDefaultServiceConfig(retries))
				for i := range 5 {
					time.Sleep(37 * time.Millisecond)
					assert.Equal(t, "OK", get(f, c))
					assert.EqualValues(t, 2*i, denied.Load(), "each but the first was denied once")
					answered, _ := exchange(f, c, 1)
					assert.Equal(t, 1, answered)
					assert.EqualValues(t, 2*i+1, denied.Load())
				}
			})
		})
	}
}

// The pushback is the RetryInfo in milliseconds. The exact time alone decides whether retries stop.
func TestSpread_Pushback_FollowsRetryInfo(t *testing.T) {
	for interval, want := range map[time.Duration]string{
		time.Minute:               "RetryInfo: retry_delay 1m30s\n;grpc-retry-pushback-ms: 90000\n",
		time.Minute + time.Second: "RetryInfo: retry_delay 1m31s\n;grpc-retry-pushback-ms: -1\n",
	} {
		guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			calls := unary(f, new(service), perIP(client, limit.FixedWindow{Permits: 1, Interval: interval}),
				grpclimit.Spread(time.Minute), grpclimit.WithRandom(func(n int64) int64 { return n / 2 }))
			require.Equal(t, "OK", get(f, calls))
			got := get(f, calls)
			for line := range strings.SplitSeq(want, ";") {
				assert.Contains(t, got, line)
			}
		})
	}
}
