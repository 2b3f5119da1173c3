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

// to is the context of a call to a host.
func to(ctx context.Context, host string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "host-key", host)
}

var message = new(test.StreamingOutputCallRequest)

// open opens a stream to the host "one".
func open(ctx context.Context, t *testing.T, c test.TestServiceClient) test.TestService_FullDuplexCallClient {
	t.Helper()
	ss, err := c.FullDuplexCall(to(ctx, "one"))
	require.NoError(t, err)
	return ss
}

// One goroutine sends while another receives.
func TestStreamClientInterceptor_EachMessage_WaitsForItsPermit(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		c := limited(serve(f, new(service)), perHost(client, limit.FixedWindow{Permits: 2, Interval: time.Second}),
			grpclimit.EachMessage(),
			grpclimit.Report(func(_ context.Context, call grpclimit.Call, _ grpclimit.Outcome) {
				assert.Same(t, message, call.Message)
			}))
		ss := open(t.Context(), t, c)
		begin := time.Now()
		var receives sync.WaitGroup
		receives.Go(func() {
			for i := range 6 {
				_, err := ss.Recv()
				assert.NoError(t, err)
				assert.Equal(t, time.Duration(i/2)*time.Second, time.Since(begin).Truncate(time.Second), "answer %d", i)
			}
			_, err := ss.Recv()
			assert.Equal(t, io.EOF, err)
		})
		for range 6 {
			assert.NoError(t, ss.Send(message))
		}
		assert.NoError(t, ss.CloseSend())
		receives.Wait()
	})
}

func TestStreamClientInterceptor_MessageNotSent_EndsTheStream(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		ended := make(chan error, 1)
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			err := echo(ss)
			ended <- err
			return err
		}}
		c := limited(serve(f, s), perHost(client, hour(1)), grpclimit.EachMessage(), grpclimit.AtOnce())
		ss := open(t.Context(), t, c)
		require.NoError(t, ss.Send(message))
		_, err := ss.Recv()
		require.NoError(t, err)
		err = ss.Send(message)
		assert.ErrorIs(t, err, grpclimit.ErrNotSent)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		assert.Equal(t, codes.Canceled, status.Code(<-ended))
	})
}

func TestStreamClientInterceptor_StreamEnds_FreesTheSender(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			_, _ = ss.Recv()
			time.Sleep(time.Second)
			return statusOf(codes.ResourceExhausted, retryIn(10*time.Second))
		}}
		c := limited(serve(f, s), perHost(client, limit.TokenBucket{Capacity: 1, Refill: 1, Interval: 5 * time.Second}),
			grpclimit.EachMessage())
		ss := open(t.Context(), t, c)
		require.NoError(t, ss.Send(message))
		begin := time.Now()
		var sends sync.WaitGroup
		sends.Go(func() {
			assert.Equal(t, io.EOF, ss.Send(message))
			assert.Equal(t, time.Second, time.Since(begin))
		})
		_, err := ss.Recv()
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		sends.Wait()

		ss = open(t.Context(), t, c)
		require.NoError(t, ss.Send(message))
		assert.Equal(t, 11*time.Second, time.Since(begin), "the limiter was paused")
		_, _ = ss.Recv()
	})
}

func TestStreamClientInterceptor_FreeMessageBeforeThePause_PausesTheLimiter(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			for range 2 {
				_, err := ss.Recv()
				assert.NoError(t, err)
			}
			return statusOf(codes.ResourceExhausted, retryIn(10*time.Second))
		}}
		c := limited(serve(f, s), perHost(client, hour(9)), grpclimit.EachMessage(),
			grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
				return int64(len(call.Message.(*test.StreamingOutputCallRequest).GetResponseParameters()))
			}))
		costs := &test.StreamingOutputCallRequest{ResponseParameters: []*test.ResponseParameters{{}}}
		begin := time.Now()
		for i := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			ss := open(ctx, t, c)
			require.NoError(t, ss.Send(costs))
			assert.Equal(t, time.Duration(i)*10*time.Second, time.Since(begin))
			require.NoError(t, ss.Send(message))
			_, err := ss.Recv()
			assert.Equal(t, codes.ResourceExhausted, status.Code(err))
			cancel()
		}
	})
}

func TestStreamClientInterceptor_OneAnswer_EndsTheStream(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		c := limited(serve(f, new(sums)), perHost(client, hour(2)), grpclimit.EachMessage())
		ss, err := c.StreamingInputCall(to(t.Context(), "one"))
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, ss.Send(new(test.StreamingInputCallRequest)))
		}
		answer, err := ss.CloseAndRecv()
		require.NoError(t, err)
		assert.EqualValues(t, 2, answer.GetAggregatedPayloadSize())

		server, err := c.StreamingOutputCall(to(t.Context(), "two"), message)
		require.NoError(t, err)
		_, err = server.Recv()
		assert.Equal(t, io.EOF, err)
		ctx, cancel := context.WithTimeout(to(t.Context(), "one"), time.Second)
		defer cancel()
		_, err = c.StreamingOutputCall(ctx, message)
		assert.ErrorIs(t, err, grpclimit.ErrNotSent, "its one message")
	})
}

// sums counts what it receives.
type sums struct {
	test.UnimplementedTestServiceServer
}

func (sums) StreamingInputCall(ss test.TestService_StreamingInputCallServer) error {
	for n := int32(0); ; n++ {
		if _, err := ss.Recv(); errors.Is(err, io.EOF) {
			return ss.SendAndClose(&test.StreamingInputCallResponse{AggregatedPayloadSize: n})
		} else if err != nil {
			return err
		}
	}
}

func (sums) StreamingOutputCall(*test.StreamingOutputCallRequest, test.TestService_StreamingOutputCallServer) error {
	return nil
}

// The caller leaves while a message waits, or before it sends one. The test fails if a goroutine is left.
func TestStreamClientInterceptor_CallerLeaves_LeavesNothing(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		c := limited(serve(f, new(service)), perHost(client, hour(1)), grpclimit.EachMessage())
		ctx, leave := context.WithCancel(t.Context())
		open(ctx, t, c)
		ss := open(ctx, t, c)
		require.NoError(t, ss.Send(message))
		time.AfterFunc(time.Second, leave)
		err := ss.Send(message)
		assert.ErrorIs(t, err, grpclimit.ErrNotSent)
		assert.Equal(t, codes.Canceled, status.Code(err))
	})
}
