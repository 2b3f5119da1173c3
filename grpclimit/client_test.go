package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

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

// to is the context of a call to a host.
func to(ctx context.Context, host string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "host-key", host)
}

// limited is a client whose calls are limited, unary ones and streams by themselves.
func limited(s *server, choose choice, opts ...grpclimit.Option) test.TestServiceClient {
	return s.dial(grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(choose, opts...)),
		grpc.WithStreamInterceptor(grpclimit.StreamClientInterceptor(choose, opts...)))
}

// ask calls a host with a timeout.
func ask(f *redistest.Fixture, c test.TestServiceClient, host string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(f.Context(), within)
	defer cancel()
	return call(to(ctx, host), c)
}

// The status of ErrNotSent, which a server may return to its own clients, does not contain the reason.
func TestErrNotSent_Status_HasRetryTime(t *testing.T) {
	const over = "ResourceExhausted: the call is over its limit\n"
	two := grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return 2 })
	fails := func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) { return nil, errors.New("a secret") }
	for name, c := range map[string]struct {
		choose choice // perHost by default
		opts   []grpclimit.Option
		want   string
	}{
		"context":          {nil, nil, "DeadlineExceeded: the call ended before it was admitted\n"},
		"wait":             {nil, []grpclimit.Option{grpclimit.Wait(time.Second)}, over + "RetryInfo: retry_delay 1h0m0s\n"},
		"more than all is": {nil, []grpclimit.Option{two}, over},
		"a failure":        {fails, nil, "Unavailable: calls cannot be admitted at the moment\nRetryInfo: retry_delay 1s\n"},
	} {
		guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			if c.choose == nil {
				c.choose = perHost(client, hour(1))
			}
			calls := limited(serve(f, new(service)), c.choose, append(c.opts,
				grpclimit.Report(func(_ context.Context, call grpclimit.Call, _ limit.Outcome) {
					assert.True(t, call.Outgoing)
					assert.Equal(t, "passthrough:///server", call.Target)
				}))...)
			begin := time.Now()
			_ = ask(f, calls, "one", time.Minute)
			err := ask(f, calls, "one", time.Minute)
			assert.ErrorIs(t, err, grpclimit.ErrNotSent)
			assert.Equal(t, c.want, received(t, err, nil), name)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = calls.FullDuplexCall(to(ctx, "one"))
			assert.ErrorIs(t, err, grpclimit.ErrNotSent)
			assert.Equal(t, c.want, received(t, err, nil), name)
			assert.Zero(t, time.Since(begin))
		})
	}
}

// The tries of a retry policy take permits once.
func TestUnaryClientInterceptor_RetryPolicy_TakesPermitsOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var tries atomic.Int64
		s := &service{unary: func(context.Context, *test.SimpleRequest) error {
			if tries.Add(1) < 3 {
				return statusOf(codes.Unavailable)
			}
			return nil
		}}
		c := serve(f, s).dial(grpc.WithDefaultServiceConfig(retries),
			grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(perHost(client, hour(1)))))
		assert.NoError(t, ask(f, c, "one", time.Minute))
		assert.EqualValues(t, 3, tries.Load())
	})
}

func TestStreamInterceptors_NoLimiter_PassMessages(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		s := serve(f, new(service), grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(grpclimit.All(nil))))
		c := limited(s, grpclimit.All(nil))
		assert.NoError(t, call(t.Context(), c))
		answered, end := exchange(f, c, 3)
		assert.Equal(t, 3, answered)
		assert.Equal(t, "OK", end)
	})
}

// TestClientInterceptors_InFlight_PlaceReturnsAtTheEnd of the RPC, once.
func TestClientInterceptors_InFlight_PlaceReturnsAtTheEnd(t *testing.T) {
	open := func(t *testing.T, ctx context.Context, c test.TestServiceClient) test.TestService_FullDuplexCallClient {
		ss, err := c.FullDuplexCall(ctx)
		require.NoError(t, err)
		require.NoError(t, ss.Send(new(test.StreamingOutputCallRequest)))
		_, err = ss.Recv()
		require.NoError(t, err)
		return ss
	}
	type use = func(t *testing.T, ctx context.Context, c test.TestServiceClient, held func() int64)
	for name, use := range map[string]use{
		"unary": func(t *testing.T, ctx context.Context, c test.TestServiceClient, _ func() int64) {
			require.NoError(t, call(ctx, c))
		},
		"unary that fails": func(t *testing.T, ctx context.Context, c test.TestServiceClient, _ func() int64) {
			require.Error(t, call(ctx, c, grpc.UseCompressor("unknown")))
		},
		"stream": func(t *testing.T, ctx context.Context, c test.TestServiceClient, held func() int64) {
			ss := open(t, ctx, c)
			assert.EqualValues(t, 3, held())
			require.NoError(t, ss.CloseSend())
			_, err := ss.Recv()
			require.ErrorIs(t, err, io.EOF)
			_, err = ss.Recv()
			require.Error(t, err)
		},
		"stream of a client that leaves": func(t *testing.T, ctx context.Context, c test.TestServiceClient,
			held func() int64) {
			ctx, cancel := context.WithCancel(ctx)
			open(t, ctx, c)
			assert.EqualValues(t, 3, held())
			cancel()
		},
		"stream that is not sent": func(t *testing.T, ctx context.Context, c test.TestServiceClient, _ func() int64) {
			_, err := c.FullDuplexCall(ctx, grpc.UseCompressor("unknown"))
			require.Error(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				l := limit.New(client, "calls", limit.InFlight{Permits: 5, Lease: time.Minute})
				held := func() int64 {
					time.Sleep(time.Second)
					each, err := l.Peek(t.Context())
					require.NoError(t, err)
					return 5 - each[0].Remaining
				}
				var taken limit.Taken
				require.NoError(t, taken.Acquire(t.Context(), 2, l))
				use(t, t.Context(), limited(serve(f, new(service)), grpclimit.All(l)), held)
				assert.EqualValues(t, 2, held())
			})
		})
	}
}

// TestStreamServerInterceptor_InFlight_HoldsForTheStream, until its handler returns, also if the client leaves.
func TestStreamServerInterceptor_InFlight_HoldsForTheStream(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		l := limit.New(client, "streams", limit.InFlight{Permits: 2, Lease: time.Minute, Renew: true})
		c := serve(f, new(service), grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(grpclimit.All(l)))).dial()
		open := func(ctx context.Context) (test.TestService_FullDuplexCallClient, error) {
			ss, err := c.FullDuplexCall(ctx)
			require.NoError(t, err)
			_ = ss.Send(new(test.StreamingOutputCallRequest))
			_, err = ss.Recv()
			return ss, err
		}
		leaves, leave := context.WithCancel(t.Context())
		_, err := open(leaves)
		require.NoError(t, err)
		ends, err := open(t.Context())
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		_, err = open(t.Context())
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		leave()
		time.Sleep(time.Second)
		last, err := open(t.Context())
		require.NoError(t, err)
		for _, ss := range []test.TestService_FullDuplexCallClient{ends, last} {
			require.NoError(t, ss.CloseSend())
			_, err = ss.Recv()
			require.ErrorIs(t, err, io.EOF)
		}
		time.Sleep(time.Second)
		assert.Empty(t, f.Redis.Keys())
	})
}

// TestFollowQuota_Metadata_DrainsTheLimiter: that of the header.
func TestFollowQuota_Metadata_DrainsTheLimiter(t *testing.T) {
	left := metadata.Pairs("x-ratelimit-remaining", "40")
	s := &service{
		unary: func(ctx context.Context, _ *test.SimpleRequest) error { return grpc.SetHeader(ctx, left) },
		stream: func(ss test.TestService_FullDuplexCallServer) error {
			return errors.Join(ss.SetHeader(left), ss.Send(new(test.StreamingOutputCallResponse)))
		},
	}
	for name, use := range map[string]func(t *testing.T, c test.TestServiceClient){
		"unary": func(t *testing.T, c test.TestServiceClient) { require.NoError(t, call(t.Context(), c)) },
		"stream": func(t *testing.T, c test.TestServiceClient) {
			ss, err := c.FullDuplexCall(t.Context())
			require.NoError(t, err)
			_, err = ss.Recv()
			require.NoError(t, err)
			require.NoError(t, ss.CloseSend())
			_, err = ss.Recv()
			require.ErrorIs(t, err, io.EOF)
		},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				l := limit.New(client, "calls", hour(100))
				for _, follow := range []bool{false, true} {
					opts := []grpclimit.Option{}
					if follow {
						opts = append(opts, grpclimit.FollowQuota())
					}
					use(t, limited(serve(f, s), grpclimit.All(l), opts...))
					time.Sleep(time.Second)
					each, err := l.Peek(t.Context())
					require.NoError(t, err)
					assert.EqualValues(t, map[bool]int64{false: 99, true: 40}[follow], each[0].Remaining)
				}
			})
		})
	}
}

// TestClient_ChooserFails_StatusPausesNothing: there is no limiter whose name could pause.
func TestClient_ChooserFails_StatusPausesNothing(t *testing.T) {
	pause, err := status.New(codes.Unavailable, "busy").WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	require.NoError(t, err)
	fails := func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) { return nil, errors.New("no tenant") }
	for name, opt := range map[string]grpclimit.Option{
		"open": grpclimit.OnFailure(limit.Open), "shadow": grpclimit.Shadow(),
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
				c := limited(serve(f, &service{
					unary:  func(context.Context, *test.SimpleRequest) error { return pause.Err() },
					stream: func(test.TestService_FullDuplexCallServer) error { return pause.Err() },
				}), fails, opt)
				assert.Equal(t, codes.Unavailable, status.Code(call(t.Context(), c)))
				stream, err := c.FullDuplexCall(t.Context())
				require.NoError(t, err)
				_, err = stream.Recv()
				assert.Equal(t, codes.Unavailable, status.Code(err))
			})
		})
	}
}
