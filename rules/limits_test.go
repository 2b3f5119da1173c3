package rules

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestParse_Limits_AreThePoliciesOfPackageLimit(t *testing.T) {
	for text, want := range map[string]limit.Policy{
		`10/s`:                                 limit.SlidingWindow{Permits: 10, Interval: time.Second},
		`{permits: 10, per: 30s}`:              limit.SlidingWindow{Permits: 10, Interval: 30 * time.Second},
		`{rate: 10/1m30s, cells: 9}`:           limit.SlidingWindow{Permits: 10, Interval: 90 * time.Second, Cells: 9},
		`{rate: 10/min, policy: fixed_window}`: limit.FixedWindow{Permits: 10, Interval: time.Minute},
		`{rate: 10/2d, policy: sliding_log}`:   limit.SlidingLog{Permits: 10, Interval: 48 * time.Hour},
		`{rate: 10/month, policy: calendar}`:   limit.Calendar{Permits: 10, Unit: limit.Month},
		`{rate: 10/w, policy: calendar}`:       limit.Calendar{Permits: 10, Unit: limit.Week},
	} {
		s := parsed(t, "rules: [{name: a, key: ip, limits: "+text+"}]").current.Load()
		assert.Equal(t, []limit.Policy{want}, s.rules[0].limits.policies, text)
	}
	r := parsed(t, `rules: [{name: a, limits: {redisson: q, rate: 5/s, type: per_client, keep_alive: 1h}}]`).current.Load()
	assert.Equal(t,
		rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 5, Interval: time.Second, KeepAlive: time.Hour},
		*r.rules[0].limits.redisson[0].rate)
}

func TestCost_ContentLength_IsRoundedUp(t *testing.T) {
	for text, want := range map[string]map[int64]int64{
		"content_length": {0: 1, 1: 1, 7: 7, -1: -1}, "content_length/10": {0: 1, 1: 1, 10: 1, 11: 2, 20: 2, 21: 3, -1: -1},
	} {
		rule := parsed(t, one("key: ip, limits: 1/s, cost: "+text)).file().rules[0]
		for length, permits := range want {
			r := request("PUT /")
			r.ContentLength = length
			got, err := rule.cost.of(ofHTTP(r, &httplimit.Address{}))
			if permits < 0 {
				assert.ErrorIs(t, err, httplimit.ErrLengthRequired)
				continue
			}
			assert.NoError(t, err)
			assert.Equal(t, permits, got, "%s of %d", text, length)
		}
	}
}

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

// Rules of different slots decide one after another.
func TestMiddleware_Cluster_JoinsRulesOfOneSlot(t *testing.T) {
	o := newOpener(offlineCluster)
	require.True(t, o.cluster)
	require.False(t, newOpener(offline).cluster)
	acquires := func(o *opener, file string) [][]string {
		v := parsed(t, file).current.Load()
		var names [][]string
		for _, s := range v.acquiresOfHTTP(o, request("GET /")) {
			_, err := s.limiter.Take(ended, 1)
			require.True(t, errors.Is(err, context.Canceled), "%v", err)
			names = append(names, s.rules)
		}
		return names
	}
	file := "match: all\nrules: [{name: a, key: ip, limits: 1/h}, {name: b, key: all, limits: [2/h, {redisson: r}]}]"
	assert.Equal(t, [][]string{{"a", "b"}}, acquires(newOpener(offline), file))
	assert.Equal(t, [][]string{{"a"}, {"b"}, nil}, acquires(o, file))
	large := strings.Replace(file, "limits: 1/h", "limits: [1/s, 1/m, 1/h, 1/d, 1/2s, 1/3s, 1/4s, 1/5s, 1/6s]", 1)
	assert.Equal(t, [][]string{{"a"}, {"b"}}, acquires(newOpener(offline), large), "11 limits")
	assert.Equal(t, [][]string{{"a", "b"}, nil}, acquires(o, "domain: '{shop}'\n"+file))
	assert.Equal(t, [][]string{{"a", "b"}},
		acquires(o, strings.Replace("domain: '{shop}'\n"+file, "redisson: r", "redisson: '{shop}:r'", 1)))
}

func TestParse_NewPolicy_LimitsOrIsRefused(t *testing.T) {
	policytest.Register(t)
	decisions(t, map[string]decisionTest{"novel": {one("key: ip, limits: {rate: 2/h, policy: novel}"),
		[]call{{"GET /", nil, good}, {"GET /", nil, good}, {"GET /", nil, many}}}})
	_, err := Parse("rules.yaml", []byte(one("key: ip, limits: {rate: 3/h, policy: incomplete}")))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "incomplete describes no local share")
}
