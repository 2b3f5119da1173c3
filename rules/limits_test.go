package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The limiter is alone, or has other limits beside it; one rule states the rate. SetRates keeps the
// state. A limiter that was lost with the data of Redis begins again.
func TestMiddleware_RedissonLimiter_SharesItsRate(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t, `
rules:
  - {name: alone, match: /alone, limits: {redisson: paid, rate: 3/h}}
  - {name: both, match: /both, key: ip, limits: [2/h, {redisson: paid}]}`)
		handler := set.Middleware(client)(&ok{})
		assert.Equal(t, good, status(handler, "GET /both")) // that sets the rate
		f.Redis.FlushAll()
		require.NoError(t, set.SetRates(t.Context(), client))
		paid := client.Limiter("paid")
		is, err := paid.Config(t.Context())
		require.NoError(t, err)
		assert.Equal(t, rratelimiter.Rate{Permits: 3, Interval: time.Hour}, is)
		assert.Equal(t, good, status(handler, "GET /alone"))
		w := serve(handler, request("GET /both"))
		assert.Equal(t, good, w.Code)
		assert.Equal(t, `"1h";r=1;t=3960, "paid";r=1`, strings.ReplaceAll(w.Header().Get("Ratelimit"), "hour", "1h"))
		assert.Equal(t, good, status(handler, "GET /both"))
		assert.Equal(t, many, status(handler, "GET /both"))
		free, err := paid.AvailablePermits(t.Context())
		require.NoError(t, err)
		assert.Zero(t, free)
		// Another rate keeps the permits taken.
		next := parsed(t, `rules: [{name: alone, limits: {redisson: paid, rate: 5/h}}]`)
		require.NoError(t, next.SetRates(t.Context(), client))
		free, err = paid.AvailablePermits(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, free)
		// The same rate writes nothing.
		before, sent := f.Redis.Dump(), f.Sent.Load()
		require.NoError(t, next.SetRates(t.Context(), client))
		assert.Equal(t, before, f.Redis.Dump())
		assert.EqualValues(t, 1, f.Sent.Load()-sent) // to read the rate
		f.Redis.FlushAll()
		for _, want := range []int{good, good, good, many} {
			assert.Equal(t, want, status(handler, "GET /alone"))
		}
	})
}
