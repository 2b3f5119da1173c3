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
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestCost(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := new(service)
		c := unary(b, s, perIP(client, hour(10)), grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
			assert.Equal(b, "/grpc.testing.TestService/UnaryCall", call.Method)
			return int64(call.Message.(*test.SimpleRequest).GetResponseSize())
		}))
		for _, row := range []struct {
			cost int32
			want string
		}{
			{0, "OK"}, {7, "OK"},
			{4, "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 1h0m0s\n" +
				`QuotaFailure: subject "", description "the limit \"hour\" of 10 has too few permits left", quota_metric "permits", quota_id "hour", quota_value 10` +
				"\ngrpc-retry-pushback-ms: -1\n"},
			{3, "OK"},
			{11, "ResourceExhausted: the call is over its limit\n" +
				`QuotaFailure: subject "", description "the call costs more than the limit \"hour\" of 10 ever grants", quota_metric "permits", quota_id "hour", quota_value 10` +
				"\ngrpc-retry-pushback-ms: -1\n"},
		} {
			assert.Equal(b, row.want, getOf(b, c, row.cost), "cost %d", row.cost)
		}
		assert.EqualValues(b, 3, s.served.Load())
	})
}

// A call that waits is served as soon as it can be, and refused at once where it cannot in time.
func TestWait(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := new(service)
		c := unary(b, s, perIP(client, limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}), grpclimit.Wait(2*time.Second))
		require.Equal(b, "OK", get(b, c))
		begin := time.Now()
		assert.Contains(b, get(b, c), "grpc-retry-pushback-ms: 3000\n")
		assert.Zero(b, time.Since(begin))
		redistest.Pass(1500 * time.Millisecond)
		assert.Equal(b, "OK", get(b, c))
		assert.Equal(b, 3*time.Second, time.Since(begin))
		assert.EqualValues(b, 2, s.served.Load())
	})
}

// A call whose caller leaves while it waits, or will have left by then, does not get to the handler.
func TestCallersThatLeave(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		limiter := grpclimit.UnaryServerInterceptor(perIP(client, limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}), grpclimit.Wait(time.Hour))
		ask := func(ctx context.Context) error {
			_, err := limiter(from(ctx, "192.0.2.1:1"), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
		require.NoError(b, ask(b.Context()))
		begin := time.Now()
		short, stop := context.WithTimeout(b.Context(), time.Second)
		defer stop()
		assert.Equal(b, "DeadlineExceeded: the call ended before it was admitted\n", told(b, ask(short), nil))
		assert.Zero(b, time.Since(begin), "it knows at once")
		leaves, leave := context.WithCancel(b.Context())
		time.AfterFunc(time.Second, leave)
		assert.Equal(b, "Canceled: the call ended before it was admitted\n", told(b, ask(leaves), nil))
		assert.Equal(b, time.Second, time.Since(begin))
	})
}

func TestShadowDecidesAndLetsPass(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := new(service)
		var results []string
		c := unary(b, s, perIP(client, hour(1)), grpclimit.Shadow(), grpclimit.Wait(2*time.Hour),
			grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) {
				assert.True(b, o.Shadow)
				assert.Equal(b, "api:192.0.2.1", o.Limiter)
				results = append(results, o.Result.String())
			}))
		for range 2 {
			assert.Equal(b, "OK", get(b, c))
		}
		b.Redis.Server().Close()
		assert.Equal(b, "OK", get(b, c))
		assert.Equal(b, []string{"acquired", "rejected", "failed_closed"}, results)
		assert.EqualValues(b, 3, s.served.Load())
	})
}

// What can never work says so at once.
func TestWrongSettingsPanic(t *testing.T) {
	client := new(rratelimiter.Client)
	for name, f := range map[string]func(){
		"no choice":            func() { grpclimit.UnaryServerInterceptor(nil) },
		"no choice of streams": func() { grpclimit.StreamServerInterceptor(nil) },
		"no choice for calls":  func() { grpclimit.UnaryClientInterceptor(nil) },
		"no choice, streams":   func() { grpclimit.StreamClientInterceptor(nil) },
		"no client":            func() { grpclimit.Each(client, "api", grpclimit.ByIP(), hour(1)) },
		"no key":               func() { grpclimit.Each(client, "api", nil, hour(1)) },
		"no name":              func() { grpclimit.Each(client, "", grpclimit.ByIP(), hour(1)) },
		"a share of nothing":   func() { grpclimit.Local(0) },
		"a share above all":    func() { grpclimit.Local(1.1) },
		"a mode":               func() { grpclimit.OnFailure(2) },
		"a deadline":           func() { grpclimit.Deadline(0) },
		"a wait":               func() { grpclimit.Wait(0) },
		"a name's letters":     func() { grpclimit.Named("é", hour(1)) },
		"no policy's name":     func() { grpclimit.Named("", hour(1)) },
	} {
		assert.Panics(t, f, name)
	}
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		for name, policies := range map[string][]limit.Policy{
			"none": {}, "a bad one": {limit.FixedWindow{}}, "two equal ones": {hour(1), hour(2)},
		} {
			assert.Panics(b, func() { perIP(client, policies...) }, name)
		}
		assert.EqualValues(b, 1, b.Scripts.Load(), "nothing was asked but by the helper")
	})
}
