package rls_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// choices has a limit of each kind that a value of a client reaches: of each value, of a fixed value
// before the value, and of a wildcard.
const choices = `
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: path
    value: /login
    rate_limit: {unit: hour, requests_per_unit: 1}
    descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]
  - {key: wild, value: "k*", rate_limit: {unit: hour, requests_per_unit: 1}}
`

// TestShouldRateLimit_WhatAClientChooses_CountsApart: Envoy chooses the keys and the client the
// values. Values in odd forms are limited, each under its own name, and on no other value's account.
func TestShouldRateLimit_WhatAClientChooses_CountsApart(t *testing.T) {
	values := []string{
		"k", "K", " k", "k ", "\tk", "k\n", "\u00a0k", "k\u200b", "%6B", "k%", "k|", `k\`, `k\|`, "k_", "k.", "k:", "k::k",
		"{k}", "k{", "k}", "{}", "k\x00", "\x00", "k*", "k?", "k[k]", "é", "e\u0301", "k=k", "k,k", `"k"`, "$k",
		strings.Repeat("k", 128), strings.Repeat("k", 129), strings.Repeat("k", 50_000),
		"%sha256:" + strings.Repeat("0", 64),
	}
	// each returns the entries of a value.
	for name, each := range map[string]func(string) [][2]string{
		"of each value":  func(v string) [][2]string { return [][2]string{{"user", v}} },
		"behind another": func(v string) [][2]string { return [][2]string{{"path", "/login"}, {"user", v}} },
		"of a wildcard":  func(v string) [][2]string { return [][2]string{{"wild", "k" + v}} },
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				s := newServer(t, client, choices)
				for i, v := range append(values, "") {
					r := &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{entriesOf(each(v))}}
					if i%2 == 0 { // the first of two by gRPC, or by HTTP
						assert.True(t, strings.HasPrefix(summary(s.ShouldRateLimit(t.Context(), r)), "OK |"), "%.30q", v)
					} else {
						assert.Equal(t, http.StatusOK, postJSON(t, s.Handler(), r), "%.30q", v)
					}
					assert.Equal(t, http.StatusTooManyRequests, postJSON(t, s.Handler(), r), "%.30q", v)
					assert.True(t, strings.HasPrefix(summary(s.ShouldRateLimit(t.Context(), r)), "OVER |"), "%.30q", v)
				}
			})
		})
	}
}

// TestShouldRateLimit_OddDescriptors_DoNotPassALimit: more descriptors, entries and duplicates beside
// one that is over its limit change nothing for it.
func TestShouldRateLimit_OddDescriptors_DoNotPassALimit(t *testing.T) {
	plain := entriesOf([][2]string{{"user", "k"}})
	for name, with := range map[string][]*common.RateLimitDescriptor{
		"twice":                    {plain, plain},
		"an unknown one before it": {entriesOf([][2]string{{"other", "k"}}), plain},
		"an empty one before it":   {entriesOf(nil), plain},
		"an empty entry before it": {entriesOf([][2]string{{"", ""}}), plain},
		"others behind it":         {plain, entriesOf([][2]string{{"user", "x"}}), entriesOf([][2]string{{"path", "/login"}})},
		"200 values before it":     append(many(200), plain),
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				s := newServer(t, client, choices)
				ask := func(all ...*common.RateLimitDescriptor) string {
					got := summary(s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "d", Descriptors: all}))
					result, _, _ := strings.Cut(got, " |")
					return result
				}
				assert.Equal(t, "OK", ask(plain))
				assert.Equal(t, "OVER", ask(with...))
			})
		})
	}
}

func many(n int) (all []*common.RateLimitDescriptor) {
	for i := range n {
		all = append(all, entriesOf([][2]string{{"user", fmt.Sprint(i)}}))
	}
	return all
}

func entriesOf(pairs [][2]string) *common.RateLimitDescriptor {
	d := new(common.RateLimitDescriptor)
	for _, p := range pairs {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: p[0], Value: p[1]})
	}
	return d
}

func postJSON(t *testing.T, handler http.Handler, r *ratelimit.RateLimitRequest) int {
	t.Helper()
	body, err := protojson.Marshal(r)
	assert.NoError(t, err)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(string(body))))
	return w.Code
}
