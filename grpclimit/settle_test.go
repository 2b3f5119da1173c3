package grpclimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	test "google.golang.org/grpc/interop/grpc_testing"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func left(b *redistest.Fixture, client *rratelimiter.Client, permits int64) int64 {
	d, err := limit.New(client, "api:192.0.2.1", hour(permits)).Peek(b.Context())
	require.NoError(b, err)
	return d[0].Remaining
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		costs []int64
		left  int64
	}{
		"nothing said": {nil, 5}, "back": {[]int64{0}, 10}, "a part back": {[]int64{2}, 8}, "as taken": {[]int64{5}, 5}, "more": {[]int64{8}, 2},
		"more than there is": {[]int64{12}, 0}, "the last counts": {[]int64{9, 0, 1}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				settles := func(ctx context.Context) error {
					for _, cost := range c.costs {
						assert.NoError(b, grpclimit.Settle(ctx, cost))
					}
					return nil
				}
				five := grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return 5 })
				s := &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error { return settles(ctx) },
					stream: func(ss test.TestService_FullDuplexCallServer) error { return settles(ss.Context()) }}
				calls := serve(b, s, grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(perIP(client, hour(10)), five)),
					grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, hour(10)), five))).dial()
				require.Equal(b, "OK", get(b, calls))
				assert.Equal(b, c.left, left(b, client, 10), "a unary call")

				redistest.Pass(2 * time.Hour)
				ss, err := calls.FullDuplexCall(b.Context())
				require.NoError(b, err)
				_, _ = ss.Recv()
				assert.Equal(b, c.left, left(b, client, 10), "a stream")
			})
		})
	}
}

// A client that goes away in the middle is settled for all the same; a handler that panics too.
func TestSettleBehindTheEnd(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		limited := grpclimit.UnaryServerInterceptor(perIP(client, hour(10)))
		ctx, cancel := context.WithCancel(from(b.Context(), "192.0.2.1:1"))
		_, err := limited(ctx, nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
			cancel()
			return nil, grpclimit.Settle(ctx, 4)
		})
		assert.NoError(b, err)
		assert.EqualValues(b, 6, left(b, client, 10))
		assert.Panics(b, func() {
			_, _ = limited(from(b.Context(), "192.0.2.1:1"), nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
				assert.NoError(b, grpclimit.Settle(ctx, 2))
				panic("a handler")
			})
		})
		assert.EqualValues(b, 4, left(b, client, 10))

		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			<-ss.Context().Done()
			assert.NoError(b, grpclimit.Settle(ss.Context(), 0))
			return nil
		}}
		calls := serve(b, s, grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, hour(10))))).dial()
		ctx, cancel = context.WithCancel(b.Context())
		_, err = calls.FullDuplexCall(ctx)
		require.NoError(b, err)
		redistest.Pass(time.Second)
		assert.EqualValues(b, 3, left(b, client, 10))
		cancel()
		redistest.Pass(time.Second)
		assert.EqualValues(b, 4, left(b, client, 10))
	})
}

// What cannot be settled says so where it is asked for.
func TestSettleFails(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		quota := client.Limiter("quota")
		require.NoError(b, quota.SetRate(b.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		var later context.Context
		calls := unary(b, &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error {
			later = ctx
			assert.ErrorIs(b, grpclimit.Settle(ctx, 2), errors.ErrUnsupported)
			assert.ErrorIs(b, grpclimit.Settle(ctx, -1), rratelimiter.ErrInvalidPermits)
			assert.NoError(b, grpclimit.Settle(ctx, 0))
			return nil
		}}, grpclimit.All(quota))
		require.Equal(b, "OK", get(b, calls))
		free, err := quota.AvailablePermits(b.Context())
		require.NoError(b, err)
		assert.EqualValues(b, 10, free)
		assert.ErrorContains(b, grpclimit.Settle(later, 0), "has returned")
		assert.NoError(b, grpclimit.Settle(b.Context(), 0), "of no call")
		assert.ErrorIs(b, grpclimit.Settle(b.Context(), -1), rratelimiter.ErrInvalidPermits)
	})
}

// A settlement has the deadline, and one that fails is told.
func TestSettleInAnOutage(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var failed []error
		calls := unary(b, &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error {
			b.Latency.Store(int64(time.Minute))
			return grpclimit.Settle(ctx, 0)
		}}, perIP(client, hour(10)), grpclimit.OnSettleError(func(_ context.Context, call grpclimit.Call, err error) {
			assert.Equal(b, "/grpc.testing.TestService/UnaryCall", call.Method)
			failed = append(failed, err)
		}))
		begin := time.Now()
		assert.Equal(b, "OK", get(b, calls))
		assert.Equal(b, grpclimit.DefaultDeadline, time.Since(begin))
		require.Len(b, failed, 1)
		assert.ErrorIs(b, failed[0], context.DeadlineExceeded)
		b.Latency.Store(0)
		redistest.Pass(time.Minute)
	})
}

// With EachMessage the outcome is that of the last message, and each is settled for before the next.
func TestSettleForMessages(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{stream: func(ss test.TestService_FullDuplexCallServer) error {
			_, limited := grpclimit.FromContext(ss.Context())
			assert.False(b, limited, "nothing was received")
			for i, remaining := range []int64{9, 8, 8, 4} { // they cost 1, 0, 4 and 2 in the end
				_, err := ss.Recv()
				assert.NoError(b, err)
				o, limited := grpclimit.FromContext(context.WithValue(ss.Context(), key{}, i))
				assert.True(b, limited)
				assert.Equal(b, remaining, o.Decision.Remaining, "message %d", i)
				switch i {
				case 1:
					assert.NoError(b, grpclimit.Settle(ss.Context(), 0))
				case 2:
					assert.NoError(b, grpclimit.Settle(ss.Context(), 4))
				case 3:
					assert.NoError(b, grpclimit.Settle(ss.Context(), 2))
				}
			}
			return nil
		}}
		calls := serve(b, s, grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, hour(10)), grpclimit.EachMessage()))).dial()
		ss, err := calls.FullDuplexCall(b.Context())
		require.NoError(b, err)
		for range 4 {
			require.NoError(b, ss.Send(new(test.StreamingOutputCallRequest)))
		}
		_, _ = ss.Recv()
		assert.EqualValues(b, 3, left(b, client, 10))
	})
}
