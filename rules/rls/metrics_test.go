package rls_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

func metricsOf(s *rls.Server) string {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Rules count under the names and labels that dashboards of the reference have.
func TestMetrics_Rules_HaveTheNamesOfTheReference(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: user, value: "10.0.0.1", rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: a
    value: "x:y"
    descriptors:
      - key: b
        descriptors:
          - {key: c, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: detail, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - key: route
    value_to_metric: true
    descriptors:
      - {key: method, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: files, value: f/*, share_threshold: true, detailed_metric: true, rate_limit: {unit: hour,
	requests_per_unit: 10}}
  - {key: wild, value: w*, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: free, rate_limit: {unlimited: true}}
`)
		for _, ask := range []string{
			"shop x7 | user=ann", "shop x3 | user=ann", "shop x2 | user=ann", "shop | user=ann +0", "shop | user=ann -5",
			"shop | user=10.0.0.1", "shop | user=10.0.0.1",
			"shop | a=x:y b=1 c=2", "shop | a=x:y b=1 c=2",
			"shop | detail=one", "shop | detail=two", "shop | detail",
			"shop | route=/a method=GET", "shop | route=/b method=PUT",
			"shop | files=f/1", "shop | files=f/2", "shop | wild=w1", "shop | wild=w2", "shop | free=1",
			"shop | own=limit 5/hour", "unknown | x=y", "shop",
		} {
			_, _ = s.ShouldRateLimit(context.Background(), request(t, ask))
		}
		got := metricsOf(s)
		for _, want := range []string{
			`total_hits{domain="shop",key1="user",key2=""} 12`, `over_limit{domain="shop",key1="user",key2=""} 2`,
			`within_limit{domain="shop",key1="user",key2=""} 10`, `near_limit{domain="shop",key1="user",key2=""} 2`,
			`total_hits{domain="shop",key1="user_10_0_0_1",key2=""} 2`, `over_limit{domain="shop",key1="user_10_0_0_1",key2=""} 1`,
			`total_hits{domain="shop",key1="a_x_y",key2="b"} 2`, `shadow_mode{domain="shop",key1="a_x_y",key2="b"} 1`,
			`over_limit{domain="shop",key1="a_x_y",key2="b"} 1`,
			`total_hits{domain="shop",key1="detail",key2=""} 1`, `total_hits{domain="shop",key1="detail_one",key2=""} 1`,
			`total_hits{domain="shop",key1="detail_two",key2=""} 1`,
			`total_hits{domain="shop",key1="route_/a",key2="method"} 1`,
			`total_hits{domain="shop",key1="route_/b",key2="method"} 1`,
			`total_hits{domain="shop",key1="files_f/*",key2=""} 2`, `total_hits{domain="shop",key1="wild_w*",key2=""} 2`,
			`within_limit{domain="shop",key1="free",key2=""} 1`,
			`total_hits{domain="shop",key1="own_limit",key2=""} 1`, `domain_not_found 1`,
		} {
			assert.Contains(t, got, "\nratelimit_service_rate_limit_"+want+"\n")
		}
		for _, want := range []string{
			`should_rate_limit_error{err_type="service_error"} 1`, `should_rate_limit_error{err_type="redis_error"} 0`,
			`total_requests{grpc_method="ShouldRateLimit"} 22`,
			`config_load_success 1`, `config_load_error 0`, `response_time_seconds_count{grpc_method="ShouldRateLimit"} 22`,
			`response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="+Inf"} 22`,
		} {
			assert.Contains(t, got, "\nratelimit_service_"+want+"\n")
		}
	})
}

// Values of requests make a bounded number of series. Others count at their rule.
func TestMetrics_ManyValues_SeriesAreBounded(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client,
			"domain: x\ndescriptors:\n  - {key: k, detailed_metric: true, rate_limit: {unlimited: true}}\n")
		// Its label is too long, and has no series.
		_, _ = s.ShouldRateLimit(context.Background(), request(t, "x | k="+strings.Repeat("y", 300)))
		for i := range 10_020 {
			_, _ = s.ShouldRateLimit(context.Background(), request(t, fmt.Sprintf("x | k=%d", i)))
		}
		for i := range 20 {
			_, _ = s.ShouldRateLimit(context.Background(), request(t, fmt.Sprintf("x | k%d=v 1/hour", i)))
		}
		got := metricsOf(s)
		assert.Equal(t, 10_002, strings.Count(got, "\nratelimit_service_rate_limit_total_hits{"))
		assert.Contains(t, got, `total_hits{domain="x",key1="override",key2=""}`)
		assert.NotContains(t, got, "yyy")
	})
}

// Headers and metadata for Envoy, and the modes of the whole service.
func TestShouldRateLimit_Options_AddHeadersAndMetadata(t *testing.T) {
	const config = `
domain: x
descriptors:
  - {key: a, metadata: {team: {name: blue}, n: 1, odd: [0.5, .inf, !!float inf]}, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: b, metadata: {team: {lead: eve}, n: 2}, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
`
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		ctx := context.Background()
		s := newServer(t, client, config, func(c *rls.Config) { c.Headers, c.Metadata = true, true })
		for range 2 {
			answer, err := s.ShouldRateLimit(ctx, request(t, "x | b=1 | a=1"))
			assert.NoError(t, err)
			assert.Equal(t, map[string]any{
				"team": map[string]any{"lead": "eve", "name": "blue"}, "n": 2.0, "odd": []any{0.5, ".inf", "inf"}, // no JSON
			}, answer.GetDynamicMetadata().AsMap()["metadata"])
			assert.Equal(t, "RateLimit-Limit", answer.GetResponseHeadersToAdd()[0].GetKey())
			assert.Equal(t, "1", answer.GetResponseHeadersToAdd()[0].GetValue())
			assert.Equal(t, "0", answer.GetResponseHeadersToAdd()[1].GetValue())
			assert.Equal(t, "3600", answer.GetResponseHeadersToAdd()[2].GetValue())
			assert.NoError(t, redistest.Err(s.ShouldRateLimit(ctx, request(t, "x | a=1 -1"))))
		}
		answer, err := s.ShouldRateLimit(ctx, request(t, "x x2 | a=over"))
		assert.NoError(t, err)
		assert.Equal(t,
			map[string]any{"domain": "x", "hitsAddend": 2.0, "descriptors": []any{map[string]any{"entries": []any{"a=over"}}}},
			answer.GetDynamicMetadata().AsMap())

		shadow := newServer(t, client, config, func(c *rls.Config) { c.Shadow = true })
		assert.Equal(t, "OK | OVER 0/1 hour 3600s", summary(shadow.ShouldRateLimit(ctx, request(t, "x x2 | a=1"))))
		assert.Contains(t, metricsOf(shadow), "\nratelimit_service_global_shadow_mode 1\n")
		quota := newServer(t, client, config, func(c *rls.Config) { c.Quota = true })
		assert.Equal(t, "OK | OVER 0/1 hour 3600s | OK",
			summary(quota.ShouldRateLimit(ctx, request(t, "x x2 | a=1 | unknown"))))
		for _, e := range []exchange{
			{0, "x x2 | a=1", "OVER | OVER 0/1 hour 3600s"},
			{0, "x x2 | a=1 | free=1", "OVER | OVER 0/1 hour 3600s | OK unlimited"},
			// Limits of the request are quotas too: one that denies lets the others take permits.
			{0, "x | own 1/hour | other 5/hour | b", "OK | OK 0/1 hour 3600s | OK 4/5 hour 3600s | OK 4/5 hour 3600s"},
			{0, "x | own 1/hour | other 5/hour | b", "OK | OVER 0/1 hour 3600s | OK 3/5 hour 3600s | OK 3/5 hour 3600s"},
		} {
			assert.Equal(t, e.want, summary(quota.ShouldRateLimit(ctx, request(t, e.ask))), e.ask)
		}
	})
}
