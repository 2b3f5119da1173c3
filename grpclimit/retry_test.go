package grpclimit_test

import (
	"context"
	"strings"
	"sync/atomic"
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

// retries is the service config of a client that retries, by itself too early.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
}}]}`

// A client with a retry policy waits as long as the trailer of the denial says.
func TestRetryPolicy_DeniedCall_PassesAtFirstRetry(t *testing.T) {
	for name, policy := range map[string]limit.Policy{
		"window": limit.FixedWindow{Permits: 1, Interval: 2500 * time.Millisecond},
		"log":    limit.SlidingLog{Permits: 1, Interval: 1100 * time.Millisecond},
		"bucket": limit.TokenBucket{Capacity: 1, Refill: 3, Interval: 10 * time.Second},
		"minute": limit.FixedWindow{Permits: 1, Interval: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				var denied atomic.Int64
				report := grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) {
					if o.Result == grpclimit.Rejected {
						denied.Add(1)
					}
				})
				c := serve(b, new(service), grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(perIP(client, policy), report)),
					grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perIP(client, policy), report)),
				).dial(grpc.WithDefaultServiceConfig(retries))
				for i := range 5 {
					redistest.Pass(37 * time.Millisecond)
					assert.Equal(b, "OK", get(b, c))
					assert.EqualValues(b, 2*i, denied.Load(), "each but the first was denied once")
					ss, err := c.FullDuplexCall(b.Context())
					require.NoError(b, err)
					require.NoError(b, ss.Send(new(test.StreamingOutputCallRequest)))
					_, err = ss.Recv()
					assert.NoError(b, err)
					require.NoError(b, ss.CloseSend())
					_, _ = ss.Recv()
					assert.EqualValues(b, 2*i+1, denied.Load())
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
		guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
			calls := unary(b, new(service), perIP(client, limit.FixedWindow{Permits: 1, Interval: interval}),
				grpclimit.Spread(time.Minute), grpclimit.WithRandom(func(n int64) int64 { return n / 2 }))
			require.Equal(b, "OK", get(b, calls))
			got := get(b, calls)
			for line := range strings.SplitSeq(want, ";") {
				assert.Contains(b, got, line)
			}
		})
	}
}
