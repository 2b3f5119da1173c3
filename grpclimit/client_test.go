package grpclimit_test

import (
	"context"
	"errors"
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

// perHost limits a client's calls by metadata, so that one connection has many hosts.
func perHost(client *rratelimiter.Client, policies ...limit.Policy) choice {
	return grpclimit.Each(client, "calls", grpclimit.ByMetadata("Host-Key"), policies...)
}

// limited is a client whose calls are limited, unary ones and streams by themselves.
func limited(s *server, choose choice, opts ...grpclimit.Option) test.TestServiceClient {
	return s.dial(grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(choose, opts...)),
		grpc.WithStreamInterceptor(grpclimit.StreamClientInterceptor(choose, opts...)))
}

// ask calls a host within a time.
func ask(b *redistest.Fixture, c test.TestServiceClient, host string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	return call(to(ctx, host), c)
}

// Calls wait for their permits in the order in which they came, each host's by themselves.
func TestCallsWait(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		c := limited(serve(b, new(service)), perHost(client, limit.FixedWindow{Permits: 1, Interval: time.Second}))
		begin := time.Now()
		var calls sync.WaitGroup
		for i := range 5 {
			calls.Go(func() {
				redistest.Pass(time.Duration(i) * time.Millisecond)
				assert.NoError(b, ask(b, c, "one", time.Minute))
				assert.Equal(b, time.Duration(i)*time.Second, time.Since(begin).Truncate(time.Second), "call %d", i)
			})
		}
		assert.NoError(b, ask(b, c, "two", time.Minute))
		assert.Zero(b, time.Since(begin))
		calls.Wait()
	})
}

// A call that cannot be sent in time fails at once, with a status that says so and no more, and has not been sent.
func TestCallsThatCannotWait(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		const over = "ResourceExhausted: the call is over its limit\n"
		for name, c := range map[string]struct {
			opts []grpclimit.Option
			want string
		}{
			"context":          {nil, "DeadlineExceeded: the call ended before it was admitted\n"},
			"wait":             {[]grpclimit.Option{grpclimit.Wait(time.Second)}, over + "RetryInfo: retry_delay 1h0m0s\n"},
			"at once":          {[]grpclimit.Option{grpclimit.AtOnce()}, over + "RetryInfo: retry_delay 1h0m0s\n"},
			"the last counts":  {[]grpclimit.Option{grpclimit.Wait(time.Second), grpclimit.AtOnce()}, over + "RetryInfo: retry_delay 1h0m0s\n"},
			"more than all is": {[]grpclimit.Option{grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return 2 })}, over},
		} {
			s := new(service)
			calls := limited(serve(b, s), perHost(client, hour(1)), c.opts...)
			begin := time.Now()
			err := ask(b, calls, name, time.Minute)
			if name != "more than all is" {
				require.NoError(b, err, name)
			}
			err = ask(b, calls, name, time.Minute)
			assert.ErrorIs(b, err, grpclimit.ErrNotSent)
			assert.Equal(b, name == "context", errors.Is(err, context.DeadlineExceeded))
			assert.Equal(b, c.want, told(b, err, nil), name)
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			_, err = calls.FullDuplexCall(to(ctx, name))
			cancel()
			assert.ErrorIs(b, err, grpclimit.ErrNotSent)
			assert.Equal(b, c.want, told(b, err, nil), name)
			assert.Zero(b, time.Since(begin))
			assert.LessOrEqual(b, s.served.Load(), int64(1))
		}
	})
}

// What a client does while Redis fails.
func TestCallsInAnOutage(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		on := serve(b, new(service))
		open := limited(on, perHost(client, hour(10)), grpclimit.OnFailure(grpclimit.Open))
		shut := limited(on, perHost(client, hour(10)))
		share := limited(on, perHost(client, limit.FixedWindow{Permits: 10, Interval: time.Second}), grpclimit.OnFailure(grpclimit.Local(0.1)))
		b.Latency.Store(int64(time.Minute))
		begin := time.Now()
		assert.NoError(b, ask(b, open, "one", time.Minute))
		assert.Equal(b, grpclimit.DefaultDeadline, time.Since(begin))
		err := ask(b, shut, "one", time.Minute)
		assert.ErrorIs(b, err, grpclimit.ErrNotSent)
		assert.ErrorIs(b, err, context.DeadlineExceeded)
		assert.Equal(b, "Unavailable: calls cannot be admitted at the moment\nRetryInfo: retry_delay 1s\n", told(b, err, nil))
		begin = time.Now()
		for i := range 4 {
			assert.NoError(b, ask(b, share, "one", time.Minute))
			assert.InDelta(b, float64(i), time.Since(begin).Seconds(), 0.5, "one a second")
		}
		b.Latency.Store(0)
		redistest.Pass(2 * time.Minute)
	})
}

// Shadow waits for nothing.
func TestCallsInTheShadow(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var results []string
		s := &service{unary: func(context.Context, *test.SimpleRequest) error {
			return statusOf(codes.ResourceExhausted, retryIn(time.Hour))
		}}
		c := limited(serve(b, s), perHost(client, hour(1)), grpclimit.Shadow(), grpclimit.Report(func(_ context.Context, call grpclimit.Call, o grpclimit.Outcome) {
			assert.True(b, call.Outgoing)
			assert.Equal(b, "passthrough:///server", call.Target)
			results = append(results, o.Result.String())
		}))
		begin := time.Now()
		for range 2 {
			assert.Equal(b, codes.ResourceExhausted, status.Code(ask(b, c, "one", time.Minute)))
		}
		assert.Equal(b, []string{"acquired", "rejected"}, results)
		assert.Zero(b, time.Since(begin))
	})
}

// The tries of a retry policy take permits once.
func TestRetriesAreOneCall(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var tries atomic.Int64
		s := &service{unary: func(context.Context, *test.SimpleRequest) error {
			if tries.Add(1) < 3 {
				return statusOf(codes.Unavailable)
			}
			return nil
		}}
		c := serve(b, s).dial(grpc.WithDefaultServiceConfig(retries), grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(perHost(client, hour(1)))))
		assert.NoError(b, ask(b, c, "one", time.Minute))
		assert.EqualValues(b, 3, tries.Load())
	})
}

// A server that hands on what its own calls came to tells nobody why.
func TestAServerHandsOn(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		backend := limited(serve(b, new(service)), func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) {
			return nil, errors.New(secret)
		})
		var own error
		c := serve(b, &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error {
			own = call(ctx, backend)
			return own
		}}).dial()
		assert.Equal(b, "Unavailable: calls cannot be admitted at the moment\nRetryInfo: retry_delay 1s\n", get(b, c))
		assert.ErrorContains(b, own, secret)
	})
}

// Nothing limits a call that no limiter is chosen for.
func TestCallsWithoutALimiter(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		for _, opts := range [][]grpclimit.Option{nil, {grpclimit.EachMessage()}} {
			c := limited(serve(b, new(service)), grpclimit.All(nil), opts...)
			assert.NoError(b, call(b.Context(), c))
			answered, end := exchange(b, c, 3)
			assert.Equal(b, 3, answered)
			assert.Equal(b, "OK", end)
		}
	})
}
