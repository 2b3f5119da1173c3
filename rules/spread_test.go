package rules

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The exact time to retry is an hour.
func TestSpread_Denials_RetryAtDifferentTimes(t *testing.T) {
	for fields, spread := range map[string]bool{"": false, ", spread: 1h": true} {
		guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
			set := parsed(b, one("key: all, limits: {policy: fixed_window, rate: 1/h}"+fields))
			handler := set.Middleware(client)(&ok{})
			interceptor := set.UnaryServerInterceptor(client)
			assert.Equal(b, good, status(handler, "GET /"))
			times := make(map[time.Duration]bool)
			for range 50 {
				after := serve(handler, request("GET /")).Header().Get("Retry-After")
				seconds, err := strconv.Atoi(after)
				require.NoError(b, err)
				times[time.Duration(seconds)*time.Second] = true

				_, err = interceptor(b.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"},
					func(context.Context, any) (any, error) { return nil, nil })
				for _, detail := range grpcstatus.Convert(err).Details() {
					if info, ok := detail.(*errdetails.RetryInfo); ok {
						times[info.GetRetryDelay().AsDuration()] = true
					}
				}
			}
			for at := range times {
				assert.GreaterOrEqual(b, at, time.Hour)
				assert.LessOrEqual(b, at, 2*time.Hour)
			}
			if spread {
				assert.Greater(b, len(times), 60, "of 100, some of which may be equal in whole seconds")
			} else {
				assert.Len(b, times, 1)
			}
		})
	}
}
