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
func streams(b *redistest.Fixture, s *service, choose choice, opts ...grpclimit.Option) test.TestServiceClient {
	return serve(b, s, grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(choose, opts...))).dial()
}

// exchange sends messages on a new stream. It returns how many were answered, and what the client
// receives at the end.
func exchange(b *redistest.Fixture, c test.TestServiceClient, messages int) (answered int, end string) {
	ss, err := c.FullDuplexCall(b.Context())
	require.NoError(b, err)
	for range messages {
		if err := ss.Send(new(test.StreamingOutputCallRequest)); err != nil {
			break
		}
		if _, err = ss.Recv(); err != nil {
			return answered, received(b, err, ss.Trailer())
		}
		answered++
	}
	require.NoError(b, ss.CloseSend())
	if _, err = ss.Recv(); errors.Is(err, io.EOF) {
		err = nil
	}
	return answered, received(b, err, ss.Trailer())
}

func TestStreamServerInterceptor_Start_TakesPermitsOnce(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := new(service)
		c := streams(b, s, perIP(client, hour(1)),
			grpclimit.Report(func(_ context.Context, call grpclimit.Call, _ grpclimit.Outcome) {
				assert.Equal(b, grpclimit.Call{Method: "/grpc.testing.TestService/FullDuplexCall"}, call)
			}))
		answered, end := exchange(b, c, 5)
		assert.Equal(b, 5, answered)
		assert.Equal(b, "OK", end)
		answered, end = exchange(b, c, 5)
		assert.Zero(b, answered)
		assert.Equal(b, anHour, end)
		assert.EqualValues(b, 1, s.served.Load())
	})
}

func TestEachMessage_OverTheLimit_EndsTheStream(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		const over = "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 10s\n" +
			`QuotaFailure: subject "", description "the limit \"10s\" of 3 has too few permits left", quota_metric "permits", quota_id "10s", quota_value 3` + "\n"
		c := streams(b, new(service), perIP(client, limit.FixedWindow{Permits: 3, Interval: 10 * time.Second}),
			grpclimit.EachMessage(),
			grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
				assert.NotNil(b, call.Message.(*test.StreamingOutputCallRequest))
				return 1
			}))
		answered, end := exchange(b, c, 0)
		assert.Zero(b, answered)
		assert.Equal(b, "OK", end, "half-closed at once")
		answered, end = exchange(b, c, 5)
		assert.Equal(b, 3, answered)
		assert.Equal(b, over+"grpc-retry-pushback-ms: -1\n", end, "a retry would send all again")
		answered, end = exchange(b, c, 5)
		assert.Zero(b, answered)
		assert.Equal(b, over+"grpc-retry-pushback-ms: 10000\n", end)
	})
}

func TestEachMessage_HandlerReceivesOn_ShedsMessages(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var got []codes.Code
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			for {
				_, err := ss.Recv()
				if errors.Is(err, io.EOF) {
					return status.Error(codes.Aborted, "another end")
				}
				got = append(got, status.Code(err))
				_, limited := grpclimit.FromContext(ss.Context())
				assert.Equal(b, err == nil, limited)
				require.NoError(b, ss.Send(new(test.StreamingOutputCallResponse)))
			}
		}}
		answered, end := exchange(b, streams(b, s, perIP(client, hour(2)), grpclimit.EachMessage()), 4)
		assert.Equal(b, 4, answered)
		assert.Equal(b, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted, codes.ResourceExhausted}, got)
		assert.Equal(b, "Aborted: another end\n", end, "no trailer of a refusal that it is not")
	})
}

// One goroutine receives while another sends, and the handler returns meanwhile.
func TestEachMessage_ConcurrentHandler_IsSafe(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var stays sync.WaitGroup
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			var both sync.WaitGroup
			both.Go(func() {
				for range 50 {
					assert.NoError(b, ss.Send(new(test.StreamingOutputCallResponse)))
					_, _ = grpclimit.FromContext(ss.Context())
					_ = grpclimit.Settle(ss.Context(), 0)
				}
			})
			both.Go(func() {
				for range 50 {
					_, err := ss.Recv()
					assert.NoError(b, err)
				}
			})
			both.Wait()
			stays.Go(func() { _, _ = ss.Recv() })
			return nil
		}}
		c := streams(b, s, perIP(client, limit.TokenBucket{Capacity: 1000, Refill: 1, Interval: time.Hour}),
			grpclimit.EachMessage())
		ss, err := c.FullDuplexCall(b.Context())
		require.NoError(b, err)
		for range 60 {
			_ = ss.Send(new(test.StreamingOutputCallRequest))
		}
		for err = nil; err == nil; {
			_, err = ss.Recv()
		}
		assert.Equal(b, io.EOF, err)
		stays.Wait()
	})
}

// The contract has the same for streams that are limited at their start.
func TestEachMessage_HandlerPanics_SettlesAndPanics(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			_, err := ss.Recv()
			assert.NoError(b, err)
			assert.NoError(b, grpclimit.Settle(ss.Context(), 0))
			panic("a handler")
		}}
		recovers := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer func() { err = status.Errorf(codes.Internal, "%v", recover()) }()
			return handler(srv, ss)
		}
		c := serve(b, s, grpc.ChainStreamInterceptor(recovers,
			grpclimit.StreamServerInterceptor(perIP(client, hour(1)), grpclimit.EachMessage()))).dial()
		for range 2 {
			_, end := exchange(b, c, 1)
			assert.Equal(b, "Internal: a handler\n", end)
		}
	})
}
