package rls_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestHashValue_Values_AreNeitherInRedisNorInMetrics: requests and files have the value itself.
func TestHashValue_Values_AreNeitherInRedisNorInMetrics(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: x
slot_by: key
descriptors:
  - {key: key, hash_value: true, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: key, value: secret-gold, hash_value: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - key: path
    descriptors: [{key: key, hash_value: true, rate_limit: {unit: year, requests_per_unit: 1}}]
  - {key: shared, value: s*, hash_value: true, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 1}}
`)
		for ask, want := range map[string][]string{
			"x | key=secret-1": {"OK", "OVER"}, "x | key=secret-2": {"OK", "OVER"},
			"x | key=secret-gold": {"OK", "OK", "OVER"}, "x | path=a key=secret-1": {"OK", "OVER"},
			"x | shared=secret": {"OK", "OVER"},
		} {
			for _, code := range want {
				answer := summary(s.ShouldRateLimit(context.Background(), request(t, ask)))
				assert.Equal(b, code, answer[:len(code)], ask)
			}
		}
		sum := sha256.Sum256([]byte("secret-1"))
		assert.Contains(b, b.Redis.Dump(), hex.EncodeToString(sum[:16]))
		assert.NotContains(b, b.Redis.Dump(), "secret")
		assert.NotContains(b, metricsOf(s), "secret-1")
		assert.Contains(b, metricsOf(s), `total_hits{domain="x",key1="key"} 4`)
	})
}
