package grpclimit_test

import (
	"context"
	"testing"

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

type key struct{}

// left returns how many of ten permits an hour the client has left.
func left(b *redistest.Fixture, client *rratelimiter.Client) int64 {
	d, err := limit.New(client, "api:192.0.2.1", hour(10)).Peek(b.Context())
	require.NoError(b, err)
	return d[0].Remaining
}

// Settle is applied before the next message is received.
func TestSettle_EachMessage_SettlesTheLastOne(t *testing.T) {
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
		calls := serve(b, s,
			grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, hour(10)), grpclimit.EachMessage()))).dial()
		ss, err := calls.FullDuplexCall(b.Context())
		require.NoError(b, err)
		for range 4 {
			require.NoError(b, ss.Send(new(test.StreamingOutputCallRequest)))
		}
		_, _ = ss.Recv()
		assert.EqualValues(b, 3, left(b, client))
	})
}
