package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"sync"
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

// streams is a server whose streams are limited, and a client of it.
func streams(f *redistest.Fixture, s *service, choose choice, opts ...grpclimit.Option) test.TestServiceClient {
	return serve(f, s, grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(choose, opts...))).dial()
}

// exchange sends messages on a new stream. It returns how many were answered, and what the client
// receives at the end.
func exchange(f *redistest.Fixture, c test.TestServiceClient, messages int) (answered int, end string) {
	ss, err := c.FullDuplexCall(f.Context())
	require.NoError(f, err)
	for range messages {
		if err := ss.Send(new(test.StreamingOutputCallRequest)); err != nil {
			break
		}
		if _, err = ss.Recv(); err != nil {
			return answered, received(f, err, ss.Trailer())
		}
		answered++
	}
	require.NoError(f, ss.CloseSend())
	if _, err = ss.Recv(); errors.Is(err, io.EOF) {
		err = nil
	}
	return answered, received(f, err, ss.Trailer())
}

func TestStreamServerInterceptor_Start_TakesPermitsOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := new(service)
		c := streams(f, s, perIP(client, hour(1)),
			grpclimit.Report(func(_ context.Context, call grpclimit.Call, _ grpclimit.Outcome) {
				assert.Equal(t, grpclimit.Call{Method: "/grpc.testing.TestService/FullDuplexCall"}, call)
			}))
		answered, end := exchange(f, c, 5)
		assert.Equal(t, 5, answered)
		assert.Equal(t, "OK", end)
		answered, end = exchange(f, c, 5)
		assert.Zero(t, answered)
		assert.Equal(t, anHour, end)
		assert.EqualValues(t, 1, s.served.Load())
	})
}

func TestEachMessage_OverTheLimit_EndsTheStream(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		const over = "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 10s\n" +
			`QuotaFailure: subject "", description "the limit \"10s\" of 3 has too few permits left", quota_metric "permits", quota_id "10s", quota_value 3` + "\n"
		c := streams(f, new(service), perIP(client, limit.FixedWindow{Permits: 3, Interval: 10 * time.Second}),
			grpclimit.EachMessage(),
			grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
				assert.NotNil(t, call.Message.(*test.StreamingOutputCallRequest))
				return 1
			}))
		answered, end := exchange(f, c, 0)
		assert.Zero(t, answered)
		assert.Equal(t, "OK", end, "half-closed at once")
		answered, end = exchange(f, c, 5)
		assert.Equal(t, 3, answered)
		assert.Equal(t, over+"grpc-retry-pushback-ms: -1\n", end, "a retry would send all again")
		answered, end = exchange(f, c, 5)
		assert.Zero(t, answered)
		assert.Equal(t, over+"grpc-retry-pushback-ms: 10000\n", end)
	})
}

func TestEachMessage_HandlerReceivesOn_ShedsMessages(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var got []codes.Code
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			for {
				_, err := ss.Recv()
				if errors.Is(err, io.EOF) {
					return status.Error(codes.Aborted, "another end")
				}
				got = append(got, status.Code(err))
				_, limited := grpclimit.FromContext(ss.Context())
				assert.Equal(t, err == nil, limited)
				require.NoError(t, ss.Send(new(test.StreamingOutputCallResponse)))
			}
		}}
		answered, end := exchange(f, streams(f, s, perIP(client, hour(2)), grpclimit.EachMessage()), 4)
		assert.Equal(t, 4, answered)
		assert.Equal(t, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted, codes.ResourceExhausted}, got)
		assert.Equal(t, "Aborted: another end\n", end, "no trailer of a refusal that it is not")
	})
}

// One goroutine receives while another sends, and the handler returns meanwhile.
func TestEachMessage_ConcurrentHandler_IsSafe(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var stays sync.WaitGroup
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			var both sync.WaitGroup
			both.Go(func() {
				for range 50 {
					assert.NoError(t, ss.Send(new(test.StreamingOutputCallResponse)))
					_, _ = grpclimit.FromContext(ss.Context())
					_ = grpclimit.Settle(ss.Context(), 0)
				}
			})
			both.Go(func() {
				for range 50 {
					_, err := ss.Recv()
					assert.NoError(t, err)
				}
			})
			both.Wait()
			stays.Go(func() { _, _ = ss.Recv() })
			return nil
		}}
		c := streams(f, s, perIP(client, limit.TokenBucket{Capacity: 1000, Refill: 1, Interval: time.Hour}),
			grpclimit.EachMessage())
		ss, err := c.FullDuplexCall(t.Context())
		require.NoError(t, err)
		for range 60 {
			_ = ss.Send(new(test.StreamingOutputCallRequest))
		}
		for err = nil; err == nil; {
			_, err = ss.Recv()
		}
		assert.Equal(t, io.EOF, err)
		stays.Wait()
	})
}

// The contract has the same for streams that are limited at their start.
func TestEachMessage_HandlerPanics_SettlesAndPanics(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			_, err := ss.Recv()
			assert.NoError(t, err)
			assert.NoError(t, grpclimit.Settle(ss.Context(), 0))
			panic("a handler")
		}}
		recovers := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer func() { err = status.Errorf(codes.Internal, "%v", recover()) }()
			return handler(srv, ss)
		}
		c := serve(f, s, grpc.ChainStreamInterceptor(recovers,
			grpclimit.StreamServerInterceptor(perIP(client, hour(1)), grpclimit.EachMessage()))).dial()
		for range 2 {
			_, end := exchange(f, c, 1)
			assert.Equal(t, "Internal: a handler\n", end)
		}
	})
}

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
