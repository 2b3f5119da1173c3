package rls_test

import (
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
)

func TestShouldRateLimit_OddRequests_AreAnswered(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, `
domain: odd
descriptors:
  - {key: k, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: w, value: "*a*b*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`)
	ask := func(d ...*common.RateLimitDescriptor) (*ratelimit.RateLimitResponse, error) {
		return s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "odd", Descriptors: d})
	}
	entry := func(key, value string) *common.RateLimitDescriptor {
		return &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
	}
	for _, value := range []string{"", "\x00", "\xff\xfe", "{a}", "{}", strings.Repeat("x", 1<<20),
		strings.Repeat("{", 1000), "a\nb", "*", "%sha256:"} {
		first, err := ask(entry("k", value))
		require.NoError(t, err)
		assert.Equal(t, ratelimit.RateLimitResponse_OK, first.GetOverallCode(), "%.20q counts by itself", value)
		second, err := ask(entry("k", value))
		require.NoError(t, err)
		assert.Equal(t, ratelimit.RateLimitResponse_OVER_LIMIT, second.GetOverallCode())
	}
	for _, d := range []*common.RateLimitDescriptor{nil, {}, {Entries: []*common.RateLimitDescriptor_Entry{nil}},
		entry("", ""), entry("", "k"), entry("w", strings.Repeat("ab", 1<<19))} {
		_, err := ask(d)
		require.NoError(t, err)
	}
}

func TestShouldRateLimit_EqualDescriptors_CountInOrder(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, "domain: x\ndescriptors:\n  - {key: k, rate_limit: {unit: year, requests_per_unit: 5}}\n")
	for i := range 100 {
		answer, err := s.ShouldRateLimit(t.Context(), request(t, "x"+strings.Repeat(fmt.Sprintf(" | k=%d", i), 5)))
		require.NoError(t, err)
		for n, one := range answer.GetStatuses() {
			require.EqualValues(t, 4-n, one.GetLimitRemaining(), "round %d", i)
		}
	}
}

func TestShouldRateLimit_ManyLimits_AreDecidedInSeveralCalls(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, "domain: x\ndescriptors:\n  - {key: k, rate_limit: {unit: year, requests_per_unit: 5}}\n")
	text := "x"
	for i := range 25 {
		text += fmt.Sprintf(" | k=%d", i)
	}
	answer, err := s.ShouldRateLimit(t.Context(), request(t, text))
	require.NoError(t, err)
	for _, one := range answer.GetStatuses() {
		assert.EqualValues(t, 4, one.GetLimitRemaining())
	}
}
