package grpclimit_test

import (
	"context"
	"fmt"
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

// retries is the service config of a client that tries again, and by itself would do so too early.
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

func TestRetryPolicy_RetryTooLateOrUseless_FailsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		policy limit.Policy
		cost   int64
		tries  int
	}{
		"later": {limit.FixedWindow{Permits: 1, Interval: 61 * time.Second}, 1, 1}, "never": {hour(1), 2, 1},
		"soon": {limit.FixedWindow{Permits: 1, Interval: 60 * time.Second}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				cost := int64(1)
				tries := 0
				calls := unaryRetrying(b, new(service), perIP(client, c.policy),
					grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return cost }),
					grpclimit.Report(func(context.Context, grpclimit.Call, grpclimit.Outcome) { tries++ }))
				require.Equal(b, "OK", get(b, calls))
				cost, tries = c.cost, 0
				begin := time.Now()
				assert.Equal(b, c.tries == 2, get(b, calls) == "OK")
				assert.Equal(b, c.tries, tries)
				assert.Equal(b, time.Duration(c.tries-1)*time.Minute, time.Since(begin).Truncate(time.Second))
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

func TestRetryPolicy_RedisDown_RetriesAfterASecond(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var at []string
		begin := time.Now()
		calls := unaryRetrying(b, new(service), perIP(client, hour(9)),
			grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) {
				at = append(at, fmt.Sprint(o.Result, " ", time.Since(begin).Round(time.Millisecond)))
			}))
		b.Latency.Store(int64(700 * time.Millisecond))
		time.AfterFunc(500*time.Millisecond, func() { b.Latency.Store(0) })
		assert.Equal(b, "OK", get(b, calls), "%v", at)
		assert.Len(b, at, 2)
	})
}

// unaryRetrying is a server whose unary calls are limited, and a client of it that tries again.
func unaryRetrying(b *redistest.Fixture, s *service, choose choice, opts ...grpclimit.Option) test.TestServiceClient {
	return serve(b, s,
		grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(choose, opts...))).dial(grpc.WithDefaultServiceConfig(retries))
}
