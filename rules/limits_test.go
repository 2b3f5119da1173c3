package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The limiter is alone, or has other limits beside it; one rule states the rate. SetRates keeps the
// state.
func TestMiddleware_RedissonLimiter_SharesItsRate(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b, `
rules:
  - {name: alone, match: /alone, limits: {redisson: paid, rate: 3/h}}
  - {name: both, match: /both, key: ip, limits: [2/h, {redisson: paid}]}`)
		handler := set.Middleware(client)(&ok{})
		assert.Equal(b, good, status(handler, "GET /both")) // that sets the rate
		b.Redis.FlushAll()
		require.NoError(b, set.SetRates(b.Context(), client))
		paid := client.Limiter("paid")
		is, err := paid.Config(b.Context())
		require.NoError(b, err)
		assert.Equal(b, rratelimiter.Rate{Permits: 3, Interval: time.Hour}, is)
		assert.Equal(b, good, status(handler, "GET /alone"))
		w := serve(handler, request("GET /both"))
		assert.Equal(b, good, w.Code)
		assert.Equal(b, `"1h";r=1;t=3960, "paid";r=1`, strings.ReplaceAll(w.Header().Get("Ratelimit"), "hour", "1h"))
		assert.Equal(b, good, status(handler, "GET /both"))
		assert.Equal(b, many, status(handler, "GET /both"))
		free, err := paid.AvailablePermits(b.Context())
		require.NoError(b, err)
		assert.Zero(b, free)
		// Another rate keeps the permits taken.
		next := parsed(b, `rules: [{name: alone, limits: {redisson: paid, rate: 5/h}}]`)
		require.NoError(b, next.SetRates(b.Context(), client))
		free, err = paid.AvailablePermits(b.Context())
		require.NoError(b, err)
		assert.EqualValues(b, 2, free)
		// The same rate writes nothing.
		before, sent := b.Redis.Dump(), b.Sent.Load()
		require.NoError(b, next.SetRates(b.Context(), client))
		assert.Equal(b, before, b.Redis.Dump())
		assert.EqualValues(b, 1, b.Sent.Load()-sent) // to read the rate
	})
}

// A limiter that has expired, or was lost with the data of Redis, begins again.
func TestMiddleware_RedissonLimiterIsGone_LimitsAgain(t *testing.T) {
	for _, failure := range []string{"open", "closed"} {
		guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
			set := parsed(b, "rules: [{name: paid, on_failure: "+failure+`,
  limits: {redisson: "{shop}:paid-api", rate: 100/s, type: overall, keep_alive: 1h}}]`)
			require.NoError(b, set.SetRates(b.Context(), client))
			handler := set.Middleware(client)(&ok{})
			for _, lose := range []func(){func() {}, func() { redistest.Pass(2 * time.Hour) }, b.Redis.FlushAll} {
				lose()
				passed := 0
				for range 1000 {
					if status(handler, "GET /") == good {
						passed++
					}
				}
				assert.Equal(b, 100, passed, failure)
				redistest.Pass(time.Second)
			}
		})
	}
}

func TestParse_NewPolicy_LimitsOrIsRefused(t *testing.T) {
	policytest.Register(t)
	decisions(t, map[string]decisionTest{"novel": {one("key: ip, limits: {rate: 2/h, policy: novel}"),
		[]call{{"GET /", nil, good}, {"GET /", nil, good}, {"GET /", nil, many}}}})
	_, err := Parse("rules.yaml", []byte(one("key: ip, limits: {rate: 3/h, policy: incomplete}")))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "incomplete describes no local share")
}
