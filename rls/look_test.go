package rls_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rls"
)

// Also of a policy that lends permits.
func TestShouldRateLimit_ZeroHits_ShowWhatOneHitWouldGet(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: x
descriptors:
  - {key: slow, rate_limit: {per: 10s, requests_per_unit: 1, policy: smooth}}
  - {key: ban, rate_limit: {unit: second, requests_per_unit: 0}}
`)
		ask := func(text string) string {
			return summary(s.ShouldRateLimit(context.Background(), request(t, text)))
		}
		assert.Equal(t, "OK | OK 0/1 unknown 10s", ask("x | slow=1 +0"))
		assert.Equal(t, "OVER | OK 0/1 unknown 10s | OVER 0/0 second 1s", ask("x x3 | slow=1 | ban=1"),
			"refused by another, which takes nothing")
		assert.Equal(t, "OK", ask("x | slow=1")[:2])
		assert.Equal(t, "OVER", ask("x | slow=1 +0")[:4])
		assert.Equal(t, "OVER", ask("x | slow=1")[:4])
	})
}

func TestShouldRateLimit_DebtBeyondDuration_IsShownAsTheLongest(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: x
descriptors:
  - {key: bucket, overdraw: true, rate_limit: {unit: second, requests_per_unit: 3, policy: token_bucket}}
`)
		answer := summary(s.ShouldRateLimit(context.Background(), request(t, "x | bucket=1 +9007199254740992")))
		assert.Equal(t, "OVER | OVER 0/3 second 9223372037s", answer)
	})
}

func TestShouldRateLimit_BanAndOtherLimits_DecideSeparately(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: x
descriptors:
  - {key: ban, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: owing, overdraw: true, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true, name: free}}
  - {key: other, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: free}]}}
`)
		for _, c := range [][2]string{
			{"x | ban=1 +0", "OVER | OVER 0/0 second 1s"},
			{"x | owing=1", "OVER | OVER 0/0 second 1s"},
			{"x | user=1 +3", "OK | OK 2/5 hour 3600s"},
			{"x | user=1 -2 | ban=1", "OVER | OK 4/5 hour 3600s | OVER 0/0 second 1s"},
			{"x | user=1 +0", "OK | OK 4/5 hour 3600s"},
			{"x | free=1 | other=1", "OK | OK unlimited | OK 4/5 hour 3600s"},
		} {
			assert.Equal(t, c[1], summary(s.ShouldRateLimit(context.Background(), request(t, c[0]))), c[0])
		}
	})
}

func TestQuota_UnlimitedDescriptor_DoesNotCount(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: x
descriptors:
  - {key: free, rate_limit: {unlimited: true}}
  - {key: ban, rate_limit: {unit: second, requests_per_unit: 0}}
`, func(c *rls.Config) { c.Quota = true })
		assert.Equal(t, "OVER | OK unlimited | OVER 0/0 second 1s",
			summary(s.ShouldRateLimit(context.Background(), request(t, "x | free=1 | ban=1"))))
	})
}
