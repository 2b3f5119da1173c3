package rls_test

import (
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestShouldRateLimit_WhatAClientChooses_CountsApart: Envoy chooses the keys and the client the
// values. Values in odd forms are limited, each under its own name, and on no other value's account.
// The limits are one of each value, one behind a fixed value, and one of a wildcard.
func TestShouldRateLimit_WhatAClientChooses_CountsApart(t *testing.T) {
	const config = `
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: path
    value: /login
    descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]
  - {key: wild, value: "k*", rate_limit: {unit: hour, requests_per_unit: 1}}
`
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, config)
		for _, value := range []string{
			"", "k", "K", " k", "k ", "\tk", "k\n", "\u00a0k", "k\u200b", "%6B", "k%", "k|", `k\`, `k\|`, "k_", "k.", "k:",
			"k::k", "{k}", "k{", "k}", "{}", "k\x00", "\x00", "k*", "k?", "k[k]", "é", "e\u0301", "k=k", "k,k", `"k"`, "$k",
			strings.Repeat("k", 128), strings.Repeat("k", 129), strings.Repeat("k", 50_000),
			"%sha256:" + strings.Repeat("0", 64),
		} {
			for _, entries := range [][]*common.RateLimitDescriptor_Entry{
				{{Key: "user", Value: value}}, {{Key: "path", Value: "/login"}, {Key: "user", Value: value}},
				{{Key: "wild", Value: "k" + value}},
			} {
				r := &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{{Entries: entries}}}
				for _, want := range []string{"OK", "OVER"} {
					result, _, _ := strings.Cut(summary(s.ShouldRateLimit(t.Context(), r)), " |")
					assert.Equal(t, want, result, "%v %.30q", entries, value)
				}
			}
		}
	})
}
