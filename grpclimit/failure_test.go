package grpclimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	test "google.golang.org/grpc/interop/grpc_testing"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Redis that has become slow, for each mode: what clients get, and that no call waits for more than the deadline.
func TestASlowRedis(t *testing.T) {
	for name, c := range map[string]struct {
		mode grpclimit.FailureMode
		want map[string]int // by code
	}{
		"open":    {grpclimit.Open, map[string]int{"OK": 50}},
		"closed":  {grpclimit.Closed, map[string]int{"Unavailable": 50}},
		"a share": {grpclimit.Local(0.5), map[string]int{"OK": 3, "ResourceExhausted": 47}}, // 5 of an hour, 3 of them at once
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				var news []string
				calls := unary(b, new(service), perIP(client, hour(10)), grpclimit.OnFailure(c.mode), grpclimit.Deadline(50*time.Millisecond),
					grpclimit.OnStoreChange(func(up bool, err error) { news = append(news, fmt.Sprint(up, err != nil)) }))
				require.Equal(b, "OK", get(b, calls))
				redistest.Pass(time.Second)
				b.Latency.Store(int64(time.Second))
				got := make(map[string]int)
				for range 50 {
					begin := time.Now()
					text := get(b, calls)
					code, _, _ := strings.Cut(text, ":")
					got[code]++
					assert.LessOrEqual(b, time.Since(begin), 50*time.Millisecond)
					assert.NotContains(b, text, "rratelimiter")
					redistest.Pass(10 * time.Millisecond)
				}
				assert.Equal(b, c.want, got)
				assert.Equal(b, []string{"false true"}, news)
				b.Latency.Store(0)
				redistest.Pass(time.Minute)
				assert.Equal(b, "OK", get(b, calls), "Redis again")
				assert.Equal(b, []string{"false true", "true false"}, news)
			})
		})
	}
}

// What a share refuses looks as any refusal, with the share's numbers.
func TestAShareIsShown(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		calls := unary(b, new(service), perIP(client, hour(10), limit.TokenBucket{Capacity: 40, Refill: 20, Interval: time.Minute}),
			grpclimit.OnFailure(grpclimit.Local(0.1)))
		b.Latency.Store(int64(time.Minute))
		assert.Equal(b, "OK", get(b, calls))
		assert.Equal(b, anHour, get(b, calls))
		b.Latency.Store(0)
		redistest.Pass(time.Minute)
	})
}

// A limiter of which policies or name are not known has no share.
func TestNoShare(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		quota := client.Limiter("quota")
		b.Latency.Store(int64(time.Minute))
		all := grpclimit.OnFailure(grpclimit.Local(1))
		assert.Equal(b, closedText, get(b, unary(b, new(service), grpclimit.All(quota), all)))
		calls := unary(b, new(service), grpclimit.All(quota), all, grpclimit.Policies(hour(1)))
		assert.Equal(b, "OK", get(b, calls))
		assert.Equal(b, anHour, get(b, calls))
		assert.Equal(b, closedText, get(b, unary(b, new(service), perIP(client, hour(10)), grpclimit.OnFailure(grpclimit.Local(0.09)))), "less than a permit")
		b.Latency.Store(0)
		redistest.Pass(time.Minute)
	})
}

// A share that a handler settles for.
func TestSettlingAShare(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		cost := int64(0)
		calls := unary(b, &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error { return grpclimit.Settle(ctx, cost) }},
			perIP(client, hour(10)), grpclimit.OnFailure(grpclimit.Local(0.1)))
		b.Latency.Store(int64(time.Minute))
		for range 5 {
			assert.Equal(b, "OK", get(b, calls))
		}
		cost = 2
		assert.Equal(b, "OK", get(b, calls))
		assert.Contains(b, get(b, calls), "RetryInfo: retry_delay 2h0m0s\n")
		b.Latency.Store(0)
		redistest.Pass(time.Minute)
	})
}
