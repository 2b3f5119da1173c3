package routers

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// item is a parsed item of RateLimit or RateLimit-Policy.
type item struct {
	name       string
	parameters map[string]int64
}

// list parses a field that must be a list of strings with integer parameters.
func list(t *testing.T, values []string) (items []item) {
	t.Helper()
	parsed, err := httpsfv.UnmarshalList(values)
	require.NoError(t, err, values)
	for _, member := range parsed {
		m := member.(httpsfv.Item)
		i := item{m.Value.(string), make(map[string]int64)}
		for _, parameter := range m.Params.Names() {
			value, _ := m.Params.Get(parameter)
			i.parameters[parameter] = value.(int64)
		}
		items = append(items, i)
	}
	return items
}

// The requirements of the draft, for all policies in many states.
func TestFields_AllPolicies_AreStructured(t *testing.T) {
	const most = 1 << 53
	second, minute := time.Second, time.Minute
	for name, policies := range map[string][]limit.Policy{
		"one": {limit.FixedWindow{Permits: 3, Interval: minute}},
		"several": {limit.FixedWindow{Permits: 2, Interval: second}, limit.SlidingWindow{Permits: 4, Interval: minute},
			limit.SlidingLog{Permits: 5, Interval: time.Hour}},
		"buckets": {limit.TokenBucket{Capacity: 3, Refill: 7, Interval: minute},
			limit.LeakyBucket{Capacity: 2, Leak: 1, Interval: second}},
		"a calendar": {limit.Calendar{Permits: 3, Unit: limit.Month}, limit.Calendar{Permits: 2, Unit: limit.Day}},
		"smooth":     {limit.Smooth{Permits: 1, Interval: second}},
		"odd names": {limit.Named(`a, b;c="d\`, limit.FixedWindow{Permits: 3, Interval: second}),
			limit.Named(" ", limit.SlidingWindow{Permits: 2, Interval: minute})},
		"milliseconds": {limit.FixedWindow{Permits: 1, Interval: 1500 * time.Millisecond}},
		"large":        {limit.FixedWindow{Permits: most, Interval: 100 * 365 * 24 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect()
			var o limit.Outcome
			handler := httplimit.Middleware(httplimit.Each(client, "web", httplimit.ByIP(), policies...), unhurried,
				httplimit.Report(func(_ *http.Request, got limit.Outcome) { o = got }))(http.NotFoundHandler())
			for range 6 {
				resp := get(handler, "/")
				quotas := list(t, resp.Header["Ratelimit-Policy"])
				limits := list(t, resp.Header["Ratelimit"])
				require.Len(t, quotas, len(policies))
				require.Len(t, limits, len(policies))
				var retry int64
				if resp.StatusCode == http.StatusTooManyRequests {
					var err error
					retry, err = strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64)
					require.NoError(t, err)
					assert.Positive(t, retry)
				} else {
					assert.Empty(t, resp.Header["Retry-After"])
				}
				for i, l := range limits {
					assert.Equal(t, quotas[i].name, l.name)
					if name == "odd names" {
						assert.Equal(t, []string{`a, b;c="d\`, " "}[i], l.name)
					}
					assert.Contains(t, quotas[i].parameters, "q")
					assert.Contains(t, l.parameters, "r")
					assert.GreaterOrEqual(t, l.parameters["r"], int64(0))
					assert.LessOrEqual(t, l.parameters["r"], quotas[i].parameters["q"])
					if w, stated := quotas[i].parameters["w"]; stated {
						assert.Positive(t, w)
					}
					if retry > 0 {
						assert.LessOrEqual(t, l.parameters["t"], retry, "it ends behind Retry-After")
					}
				}
				assert.GreaterOrEqual(t, time.Duration(retry)*second, o.Decision.RetryAfter)
			}
		})
	}
}
