package grpclimit_test

import (
	"context"
	"errors"
	"io"
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
			grpclimit.Report(func(_ context.Context, call grpclimit.Call, _ limit.Outcome) {
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
