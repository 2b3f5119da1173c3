package routers

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// item is a parsed item of RateLimit or RateLimit-Policy.
type item struct {
	name       string
	parameters map[string]int64
}

// list parses a field that must be a list of strings with integer parameters.
func list(t *testing.T, values []string) []item {
	t.Helper()
	parsed, err := httpsfv.UnmarshalList(values)
	if err != nil {
		t.Fatalf("%q: %v", values, err)
	}
	var items []item
	for _, member := range parsed {
		m, ok := member.(httpsfv.Item)
		if !ok {
			t.Fatalf("%q has a %T", values, member)
		}
		name, ok := m.Value.(string)
		if !ok {
			t.Fatalf("%q has a name of type %T", values, m.Value)
		}
		i := item{name, make(map[string]int64)}
		for _, parameter := range m.Params.Names() {
			value, _ := m.Params.Get(parameter)
			if i.parameters[parameter], ok = value.(int64); !ok {
				t.Fatalf("%q: %s is a %T", values, parameter, value)
			}
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
		"a calendar":   {limit.Calendar{Permits: 3, Unit: limit.Month}, limit.Calendar{Permits: 2, Unit: limit.Day}},
		"smooth":       {limit.Smooth{Permits: 1, Interval: second}},
		"milliseconds": {limit.FixedWindow{Permits: 1, Interval: 1500 * time.Millisecond}},
		"large":        {limit.FixedWindow{Permits: most, Interval: 100 * 365 * 24 * time.Hour}},
		"odd names": {
			httplimit.Named(`a "quoted" \ name`, limit.FixedWindow{Permits: 2, Interval: second}),
			httplimit.Named(`;q=1, "x"`, limit.FixedWindow{Permits: 2, Interval: minute}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect()
			var o httplimit.Outcome
			handler := httplimit.Middleware(httplimit.Each(client, "web", httplimit.ByIP(), policies...), unhurried,
				httplimit.Report(func(_ *http.Request, got httplimit.Outcome) { o = got }))(http.NotFoundHandler())
			for range 6 {
				resp := get(handler, "/")
				quotas := list(t, resp.Header["Ratelimit-Policy"])
				limits := list(t, resp.Header["Ratelimit"])
				if len(quotas) != len(policies) || len(limits) != len(policies) {
					t.Fatalf("%v and %v of %d policies", quotas, limits, len(policies))
				}
				var retry int64
				if text := resp.Header.Get("Retry-After"); text != "" {
					var err error
					if retry, err = strconv.ParseInt(text, 10, 64); err != nil || retry < 1 {
						t.Fatalf("Retry-After is %q", text)
					}
				}
				if (retry > 0) != (resp.StatusCode == http.StatusTooManyRequests) {
					t.Errorf("%s with Retry-After %d", resp.Status, retry)
				}
				for i, l := range limits {
					q, hasQuota := quotas[i].parameters["q"]
					r, hasRest := l.parameters["r"]
					if l.name != quotas[i].name || !hasQuota || !hasRest || r < 0 || r > q {
						t.Errorf("%+v of %+v", l, quotas[i])
					}
					if w, stated := quotas[i].parameters["w"]; stated && w < 1 {
						t.Errorf("a window of %d s", w)
					}
					if ends := l.parameters["t"]; retry > 0 && ends > retry {
						t.Errorf("Retry-After %d lies before the end of t, %d", retry, ends)
					}
				}
				if after := o.Decision.RetryAfter; time.Duration(retry)*second < after {
					t.Errorf("Retry-After %d, and permits in %v", retry, after)
				}
			}
		})
	}
}

func TestFields_Names_AreUnchanged(t *testing.T) {
	client := connect()
	for i, name := range []string{"plain", `"`, `\`, `\"`, "a, b;c=d", " ", "~!@#$%^&*()"} {
		handler := httplimit.Middleware(httplimit.Each(client, fmt.Sprint("web", i), httplimit.ByIP(),
			httplimit.Named(name, limit.FixedWindow{Permits: 2, Interval: time.Second})), unhurried)(http.NotFoundHandler())
		for field, values := range get(handler, "/").Header {
			if field != "Ratelimit" && field != "Ratelimit-Policy" {
				continue
			}
			if got := list(t, values); len(got) != 1 || got[0].name != name {
				t.Errorf("%s: %q came back as %v", field, name, got)
			}
		}
	}
}
