package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	test "google.golang.org/grpc/interop/grpc_testing"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

const anHour = "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 1h0m0s\n" +
	`QuotaFailure: subject "", description "the limit \"hour\" of 1 has too few permits left", quota_metric "permits", quota_id "hour", quota_value 1` +
	"\ngrpc-retry-pushback-ms: -1\n"

// docs/grpc.md shows the other statuses.
func TestUnaryServerInterceptor_UnknownPolicyOrSubject_StatusIsComplete(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		quota := client.Limiter("of the operator")
		require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 1, Interval: time.Minute}))
		cost := int64(1)
		c := unary(f, new(service), grpclimit.All(quota),
			grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return cost }),
			grpclimit.Subject(func(context.Context, grpclimit.Call) string { return "\xff" }))
		require.Equal(t, "OK", get(f, c))
		assert.Contains(t, get(f, c), `QuotaFailure: subject "", description "the limit \"default\" of 1 has too few`)
		cost = 2
		assert.Contains(t, get(f, c), `"the call costs more than the limit \"default\" ever grants"`)
	})
}

// A chooser may serve both doors.
func TestDescribe_ByHTTPLimit_IsKept(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		day := limit.FixedWindow{Permits: 9, Interval: 24 * time.Hour}
		describe := httplimit.Describe(httplimit.Named("calls", hour(1)), day)
		limiter := describe(limit.New(client, "api", hour(1), day))
		c := unary(f, new(service), grpclimit.All(limiter))
		require.Equal(t, "OK", get(f, c))
		assert.Contains(t, get(f, c), `description "the limit \"calls\" of 1`)
	})
}

// The handler sees the outcome of the innermost.
func TestUnaryServerInterceptor_SeveralInAChain_EachDecides(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error {
			o, limited := grpclimit.FromContext(ctx)
			assert.True(t, limited)
			assert.Equal(t, "some:192.0.2.1", o.Limiter)
			assert.EqualValues(t, 0, o.Decision.Remaining)
			return nil
		}}
		c := serve(f, s, grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(perIP(client, hour(10))),
			grpclimit.UnaryServerInterceptor(grpclimit.Each(client, "some", grpclimit.ByIP(), hour(1))))).dial()
		assert.Equal(t, "OK", get(f, c))
		assert.Equal(t, anHour, get(f, c), "one trailer, and the details of the one that denied")
	})
}
