package rules

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Statuses, short.
const (
	good = http.StatusOK
	many = http.StatusTooManyRequests
	down = http.StatusServiceUnavailable
)

// call is a request and what becomes of it.
type call struct {
	what    string
	headers []string
	want    int
}

// decisionTest is a file of rules, and requests one after another at the same moment.
type decisionTest struct {
	file  string
	calls []call
}

func decisions(t *testing.T, tests map[string]decisionTest) {
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				handler := parsed(b, tt.file).Middleware(client)(&ok{})
				for i, c := range tt.calls {
					assert.Equal(b, c.want, status(handler, c.what, c.headers...), "%d: %s %v", i, c.what, c.headers)
				}
			})
		})
	}
}

func TestDecisions(t *testing.T) {
	h := func(pairs ...string) []string { return pairs }
	decisions(t, map[string]decisionTest{
		"the first rule decides": {`
rules:
  - {name: a, match: POST /login, key: ip, limits: 1/h}
  - {name: b, match: /, key: ip, limits: 2/h}`,
			[]call{{"POST /login", nil, good}, {"POST /login", nil, many}, {"GET /login", nil, good}, {"GET /x", nil, good}, {"GET /x", nil, many}}},
		"the first rule decides, also where a later one wants more": {`
rules:
  - {name: a, match: [/, /deep/], key: all, limits: 1/h}
  - {name: b, match: {headers: {X: y}}, key: all, limits: 9/h}
  - {name: c, match: /deep/er, key: all, limits: 9/h}`,
			[]call{{"GET /", h("X", "y"), good}, {"GET /", h("X", "y"), many}, {"GET /deep/er", nil, many}}},
		"all rules decide, and what one took comes back when another refuses": {`
match: all
rules:
  - {name: wide, key: all, limits: 3/h, deadline: 1s}
  - {name: narrow, match: /a, key: all, limits: 1/h}`,
			[]call{{"GET /a", nil, good}, {"GET /a", nil, many}, {"GET /a", nil, many}, {"GET /b", nil, good}, {"GET /b", nil, good}, {"GET /b", nil, many}}},
		"all rules decide together": {`
match: all
rules:
  - {name: wide, key: all, limits: 3/h}
  - {name: narrow, match: /a, key: all, limits: 1/h}`,
			[]call{{"GET /a", nil, good}, {"GET /a", nil, many}, {"GET /a", nil, many}, {"GET /b", nil, good}, {"GET /b", nil, good}, {"GET /b", nil, many}}},
		"several limits decide together": {`
rules: [{name: a, key: all, limits: [3/h, {rate: 1/m, policy: fixed_window}]}]`,
			[]call{{"GET /", nil, good}, {"GET /", nil, many}, {"GET /", nil, many}}},
		"keys": {`
rules:
  - {name: h, match: /h, key: header:X-Tenant, limits: 1/h}
  - {name: p, match: "/p/{id}", key: path:id, limits: 1/h}
  - {name: r, match: "/r/{all...}", key: path:all, limits: 1/h}
  - {name: m, match: /m, key: method, limits: 1/h}
  - {name: c, match: /c, key: [constant:x, method], limits: 1/h}`,
			[]call{
				{"GET /h", h("X-Tenant", "a"), good}, {"GET /h", h("X-Tenant", "b"), good}, {"GET /h", h("X-Tenant", "a"), many}, {"GET /h", nil, bad},
				{"GET /p/1", nil, good}, {"GET /p/2", nil, good}, {"GET /p/%31", nil, many},
				{"GET /r/a/b", nil, good}, {"GET /r/a", nil, good}, {"GET /r/a/b", nil, many}, {"GET /r/", nil, bad},
				{"GET /m", nil, good}, {"PUT /m", nil, good}, {"PUT /m", nil, many},
				{"GET /c", nil, good}, {"PUT /c", nil, good}, {"PUT /c", nil, many},
			}},
		"overrides and bans": {`
rules:
  - name: tenants
    key: header:X-Tenant
    limits: 1/h
    overrides:
      - {key: gold, limits: 2/h}
      - {key: evil, ban: true}
      - {key: zero, limits: 0/h}
      - {key: self, unlimited: true}`,
			[]call{
				{"GET /", h("X-Tenant", "gold"), good}, {"GET /", h("X-Tenant", "gold"), good}, {"GET /", h("X-Tenant", "gold"), many},
				{"GET /", h("X-Tenant", "iron"), good}, {"GET /", h("X-Tenant", "iron"), many},
				{"GET /", h("X-Tenant", "evil"), many}, {"GET /", h("X-Tenant", "zero"), many},
				{"GET /", h("X-Tenant", "self"), good}, {"GET /", h("X-Tenant", "self"), good},
			}},
		"a key of any bytes is overridden": {`
rules:
  - {name: one, match: /one, key: header:K, limits: 9/h, overrides: [{key: 'a|b', ban: true}, {key: 'DOM\me', ban: true}]}
  - {name: two, match: /two, key: [header:K, method], limits: 9/h, overrides: [{key: ['a|b', GET], ban: true}, {key: ['a', GET], ban: true}]}`,
			[]call{
				{"GET /one", h("K", "a|b"), many}, {"GET /one", h("K", `DOM\me`), many}, {"GET /one", h("K", "a"), good},
				{"GET /two", h("K", "a|b"), many}, {"GET /two", h("K", `a\|b`), good}, {"PUT /two", h("K", "a|b"), good}, {"GET /two", h("K", "a"), many},
			}},
		"a key of the defaults is no matter of limits that count by none": {`
defaults: {key: header:K}
rules:
  - {name: ban, match: /ban, ban: true}
  - {name: some, match: /some, ban: true, overrides: [{key: x, unlimited: true}]}`,
			[]call{{"GET /ban", nil, many}, {"GET /some", nil, many}, {"GET /some", h("K", "x"), good}}},
		"all but some are banned": {`
rules:
  - name: tenants
    key: header:X-Tenant
    ban: true
    on_failure: open
    overrides: [{key: gold, limits: 1/h}, {key: self, unlimited: true}]`,
			[]call{
				{"GET /", h("X-Tenant", "gold"), good}, {"GET /", h("X-Tenant", "gold"), many}, {"GET /", h("X-Tenant", "self"), good},
				{"GET /", h("X-Tenant", "iron"), many}, {"GET /", nil, many},
			}},
		"methods that a client makes up are one": {`
rules: [{name: a, key: method, limits: 1/h}]`,
			[]call{{"GET /", nil, good}, {"FOO /", nil, good}, {"BAR /", nil, many}}},
		"an address is overridden, and a network banned": {`
rules:
  - {name: bad, match: {ranges: [198.51.100.0/24]}, ban: true}
  - name: clients
    key: ip
    limits: 1/h
    overrides: [{key: "2001:db8::1", limits: 2/h}]
address: {trusted: [192.0.2.0/24], header: X-Real-IP}`,
			[]call{
				{"GET /", h("X-Real-IP", "198.51.100.7"), many}, {"GET /", h("X-Real-IP", "203.0.113.1"), good}, {"GET /", h("X-Real-IP", "203.0.113.1"), many},
				{"GET /", nil, down}, {"GET /", h("X-Real-IP", "2001:db8::1"), good}, {"GET /", h("X-Real-IP", "2001:db8::2"), good},
				{"GET /", h("X-Real-IP", "2001:db8::3"), many}, {"GET /", h("X-Real-IP", "2001:db8:0:1::1"), good}, {"GET /", h("X-Real-IP", "2001:db8:0:1::1"), many},
			}},
		"costs": {`
rules:
  - {name: c, match: /c, key: all, limits: 5/h, cost: 3}
  - {name: h, match: /h, key: all, limits: 5/h, cost: header:X-Cost}
  - {name: l, match: /l, key: all, limits: 5/h, cost: content_length/10}`,
			[]call{
				{"GET /c", nil, good}, {"GET /c", nil, many},
				{"GET /h", h("X-Cost", "4"), good}, {"GET /h", h("X-Cost", "2"), many}, {"GET /h", h("X-Cost", "-2"), bad}, {"GET /h", nil, bad},
				{"GET /h", h("X-Cost", "0"), good}, {"GET /h", h("X-Cost", "0"), many}, // 1 at least
				{"GET /l", nil, good},
			}},
		"skips": {`
defaults: {skip: {paths: [/health, /static/], methods: [OPTIONS]}}
rules:
  - {name: a, key: all, limits: 1/h}
  - {name: b, match: /never, key: all, limits: 1/h}`,
			[]call{{"GET /health", nil, good}, {"GET /static/x", nil, good}, {"OPTIONS /x", nil, good}, {"GET /x", nil, good}, {"GET /healthy", nil, many}}},
		"a range is skipped": {`
rules: [{name: a, key: all, limits: 1/h, skip: {ranges: [192.0.2.0/24]}}]`,
			[]call{{"GET /", nil, good}, {"GET /", nil, good}}},
		"shadow": {`
rules: [{name: a, key: all, limits: 1/h, shadow: true}]`,
			[]call{{"GET /", nil, good}, {"GET /", nil, good}}},
		"a ban in shadow": {`
rules: [{name: a, ban: true, shadow: true}]`,
			[]call{{"GET /", nil, good}}},
		"an odd path is no way around a rule": {`
rules: [{name: a, match: /a/login, key: all, limits: 1/h}]`,
			[]call{
				{"GET /a/login", nil, good}, {"GET //a/login", nil, many}, {"GET /x/../a/login", nil, bad}, {"GET /a/./login", nil, bad},
				{"GET /a/%6Cogin", nil, many}, {"GET /a%2Flogin", nil, bad}, {"GET /x/%2E%2E/a/login", nil, bad}, {"GET /a/login/", nil, good},
			}},
		"hosts": {`
rules: [{name: a, match: api.example.com/, key: all, limits: 1/h}]`,
			[]call{{"GET http://api.example.com/", nil, good}, {"GET http://API.example.com.:8080/x", nil, many}, {"GET http://example.com/", nil, good}}},
		"GET is HEAD too": {`
rules: [{name: a, match: GET /a, key: all, limits: 1/h}]`,
			[]call{{"HEAD /a", nil, good}, {"GET /a", nil, many}, {"HEAD /a", nil, many}, {"POST /a", nil, good}}},
		"a slash at the end stays": {`
rules: [{name: a, match: "/a/{$}", key: all, limits: 1/h}]`,
			[]call{{"GET //a/", nil, good}, {"GET /a//", nil, many}, {"GET //a", nil, good}}},
		"a skip is that of its rule": {`
match: all
rules:
  - {name: a, key: all, limits: 1/h, skip: {paths: /h}}
  - {name: b, key: all, limits: 2/h}`,
			[]call{{"GET /h", nil, good}, {"GET /h", nil, good}, {"GET /h", nil, many}}},
		"rules of other costs": {`
match: all
rules:
  - {name: a, key: all, limits: 9/h, cost: 1}
  - {name: b, key: all, limits: 6/h, cost: 3}`,
			[]call{{"GET /", nil, good}, {"GET /", nil, good}, {"GET /", nil, many}}},
		"a ban whose cost cannot be told": {`
rules: [{name: a, key: header:K, limits: 9/h, cost: header:X-Cost, overrides: [{key: x, ban: true}]}]`,
			[]call{{"GET /", h("K", "x"), many}, {"GET /", h("K", "y"), bad}, {"GET /", h("K", "y", "X-Cost", "1", "X-Cost", "1"), bad}, {"GET /", h("K", "y", "X-Cost", "x"), bad}}},
		"a header with spaces around it, or there twice": {`
rules: [{name: a, key: header:K, limits: 1/h}]`,
			[]call{{"GET /", h("K", "x"), good}, {"GET /", h("K", " x "), many}, {"GET /", h("K", "x", "K", "y"), bad}, {"GET /", h("K", " "), bad}}},
		"more limits than decide at once": {`
match: all
rules:
  - {name: a, key: all, limits: [9/h, {rate: 9/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}
  - {name: b, key: all, limits: [9/h, {rate: 9/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}
  - {name: c, key: all, limits: [9/h, {rate: 9/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}
  - {name: d, key: all, limits: [9/h, {rate: 2/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}`,
			[]call{{"GET /", nil, good}, {"GET /", nil, good}, {"GET /", nil, many}}},
		"headers": {`
rules:
  - {name: a, match: {headers: {X-Plan: free}}, key: all, limits: 1/h}
  - {name: b, match: {pattern: /b, headers: {X-Plan: "*"}, methods: [PUT, POST]}, key: all, limits: 1/h}`,
			[]call{
				{"GET /", nil, good}, {"GET /", h("X-Plan", "free"), good}, {"GET /b", h("X-Plan", "gold"), good}, {"PUT /b", h("X-Plan", "gold"), good},
				{"PUT /b", h("X-Plan", "gold"), many}, {"GET /", h("X-Plan", "free"), many}, {"GET /", h("X-Plan", "gold", "X-Plan", "free"), many},
			}},
	})
}

// TestMiddleware_UnknownAddress_IsDecidedByTheFailureModeOfTheRule: it never falls through to the next rule.
func TestMiddleware_UnknownAddress_IsDecidedByTheFailureModeOfTheRule(t *testing.T) {
	for file, want := range map[string][]int{
		"{name: a, match: {ranges: 198.51.100.0/24}, ban: true}":                                     {down, down},
		"{name: a, match: {ranges: 198.51.100.0/24}, ban: true, on_failure: open}":                   {good, good},
		"{name: a, match: {ranges: 198.51.100.0/24}, ban: true, shadow: true}":                       {good, good},
		"{name: a, match: {headers: {X: y}, ranges: 198.51.100.0/24}, ban: true}":                    {down, down},
		"{name: a, match: {pattern: POST /, ranges: 198.51.100.0/24}, ban: true}":                    {good, many},
		"{name: a, match: {headers: {X: z}, ranges: 198.51.100.0/24}, ban: true}":                    {good, many},
		"{name: a, match: [{ranges: 198.51.100.0/24}, {headers: {X: y}}], key: all, limits: 0/h}":    {many, many},
		"{name: a, match: {ranges: 198.51.100.0/24}, key: all, limits: 9/h, on_failure: {local: 1}}": {down, down},
		"{name: a, key: all, limits: 1/h, skip: {ranges: [0.0.0.0/0, '::/0']}}":                      {good, many},
	} {
		for _, match := range []string{"first", "all"} {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				next := "  - {name: next, key: all, limits: 1/h}\n"
				handler := parsed(b, "match: "+match+"\nrules:\n  - "+file+"\n"+next).Middleware(client)(&ok{})
				for i, status := range want {
					r := request("GET /", "X", "y")
					r.RemoteAddr = "@"
					if passesOn := strings.Contains(file, "open") || strings.Contains(file, "shadow"); passesOn && match == "all" && i > 0 {
						status = many // of the next rule
					}
					assert.Equal(b, status, serve(handler, r).Code, "%s %d", file, i)
				}
			})
		}
	}
}

// TestBytesCost a permit each, or for as many as there are together, begun ones too.
func TestBytesCost(t *testing.T) {
	for text, want := range map[string]map[int64]int64{
		"content_length": {0: 1, 1: 1, 7: 7, -1: -1}, "content_length/10": {0: 1, 1: 1, 10: 1, 11: 2, 20: 2, 21: 3, -1: -1},
	} {
		rule := parsed(t, one("key: ip, limits: 1/s, cost: "+text)).file().rules[0]
		for length, permits := range want {
			r := request("PUT /")
			r.ContentLength = length
			got, err := rule.cost.of(&overHTTP{Request: r})
			if permits < 0 {
				assert.ErrorIs(t, err, httplimit.ErrLengthRequired)
				continue
			}
			assert.NoError(t, err)
			assert.Equal(t, permits, got, "%s of %d", text, length)
		}
	}
}

// TestDoorsAreOpenedWhenTheyAreNeeded, not all by the first request behind a reload; those of settings that are gone are let go.
func TestDoorsAreOpenedWhenTheyAreNeeded(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b, "rules: [{name: a, match: /a, key: ip, limits: 9/h, deadline: 1s}, {name: b, match: /b, key: ip, limits: 9/h, deadline: 2s}]")
		handler := set.Middleware(client)(&ok{})
		opened := func() (deadlines []time.Duration) {
			handler.(*middleware).opened.Range(func(s, _ any) bool {
				deadlines = append(deadlines, s.(settings).deadline)
				return true
			})
			return deadlines
		}
		status(handler, "GET /other")
		assert.Empty(b, opened())
		assert.Equal(b, good, status(handler, "GET /a"))
		assert.Equal(b, []time.Duration{time.Second}, opened())
		assert.Equal(b, good, status(handler, "GET /b"))
		assert.Len(b, opened(), 2)
		set.current.Store(parsed(b, "rules: [{name: b, match: /b, key: ip, limits: 9/h, deadline: 2s}]").file())
		status(handler, "GET /other")
		assert.Equal(b, []time.Duration{2 * time.Second}, opened())
	})
}

// TestRedisson: a limiter that Java programs use, alone, with others, and its rate.
func TestRedisson(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b, `
rules:
  - {name: alone, match: /alone, limits: {redisson: paid, rate: 3/h}}
  - {name: both, match: /both, key: ip, limits: [2/h, {redisson: paid}]}`)
		handler := set.Middleware(client)(&ok{})
		assert.Equal(b, down, status(handler, "GET /alone")) // it has no rate yet
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
		// Another rate keeps what was taken.
		next := parsed(b, `rules: [{name: alone, limits: {redisson: paid, rate: 5/h}}]`)
		require.NoError(b, next.SetRates(b.Context(), client))
		free, err = paid.AvailablePermits(b.Context())
		require.NoError(b, err)
		assert.EqualValues(b, 2, free)
		// The same one writes nothing.
		before, sent := b.Redis.Dump(), b.Sent.Load()
		require.NoError(b, next.SetRates(b.Context(), client))
		assert.Equal(b, before, b.Redis.Dump())
		assert.EqualValues(b, 1, b.Sent.Load()-sent) // to look
	})
}

// TestWithoutRedis: each failure mode, and bans, which do not depend on it.
func TestWithoutRedis(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b, `
defaults: {deadline: 50ms, key: all}
rules:
  - {name: open, match: /open, limits: 1/h, on_failure: open}
  - {name: closed, match: /closed, limits: 1/h}
  - {name: local, match: /local, limits: 10/h, on_failure: {local: 0.1}}
  - {name: ban, match: /ban, ban: true, on_failure: open}
  - {name: keys, match: /keys, key: "header:K", limits: 1/h, on_failure: open, overrides: [{key: x, ban: true}]}`)
		handler := set.Middleware(client)(&ok{})
		b.Redis.SetError("LOADING")
		for range 2 {
			assert.Equal(b, good, status(handler, "GET /open"))
			assert.Equal(b, down, status(handler, "GET /closed"))
			assert.Equal(b, many, status(handler, "GET /ban"))
			assert.Equal(b, many, status(handler, "GET /keys", "K", "x"))
			assert.Equal(b, good, status(handler, "GET /keys", "K", "y"))
		}
		assert.Equal(b, good, status(handler, "GET /local"))
		assert.Equal(b, many, status(handler, "GET /local"))
	})
}

// TestBansAskNothing of Redis.
func TestBansAskNothing(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(b, "match: all\nrules: [{name: wide, key: ip, limits: 1/h}, {name: a, ban: true}]").Middleware(client)(&ok{})
		sent := b.Sent.Load()
		w := serve(handler, request("GET /"))
		assert.Equal(b, many, w.Code)
		assert.Equal(b, sent, b.Sent.Load())
		assert.Equal(b, `"ban";q=0`, w.Header().Get("Ratelimit-Policy"))
		assert.Empty(b, w.Header().Get("Retry-After"))
		assert.Contains(b, w.Body.String(), `"violated-policies":["ban"]`)
	})
}

// TestABanIsNoMatterOfCost: an option by which requests cost nothing does not lift it.
func TestABanIsNoMatterOfCost(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		free := httplimit.Cost(func(*http.Request) int64 { return 0 })
		handler := parsed(b, "rules: [{name: a, match: /ban, ban: true}, {name: b, key: ip, limits: 1/h}]").Middleware(client, free)(&ok{})
		assert.Equal(b, many, status(handler, "GET /ban"))
		assert.Equal(b, good, status(handler, "GET /"))
		assert.Equal(b, good, status(handler, "GET /"))
	})
}

// TestWaits: a request is held back instead of refused.
func TestWaits(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(b, "rules: [{name: a, key: ip, limits: {policy: token_bucket, rate: 1/s}, wait: 2s}]").Middleware(client)(&ok{})
		begin := time.Now()
		assert.Equal(b, good, status(handler, "GET /"))
		assert.Equal(b, good, status(handler, "GET /"))
		assert.Equal(b, time.Second, time.Since(begin).Round(time.Millisecond))
	})
}

// TestMatched: what is told of a request names the rules that decided.
func TestMatched(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var reported []string
		report := httplimit.Report(func(r *http.Request, o httplimit.Outcome) {
			reported = append(reported, o.Limiter+" "+o.Result.String()+" "+strings.Join(Matched(r.Context()), ","))
		})
		var seen []string
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = Matched(r.Context()) })
		handler := parsed(b, `
domain: shop
match: all
rules:
  - {name: one, key: ip, limits: 9/h}
  - {name: two, key: all, limits: 9/h}
  - {name: three, key: all, limits: 9/h, shadow: true}`).Middleware(client, report)(next)
		serve(handler, request("GET /"))
		assert.Equal(b, []string{"one", "two", "three"}, seen)
		assert.Equal(b, []string{"shop:one:192.0.2.1 + shop:two acquired one,two,three", "shop:three acquired one,two,three"}, reported)
		assert.Nil(b, Matched(context.Background()))
	})
}

// TestSettle: what a request has cost in the end goes to all rules that let it pass.
func TestSettle(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { assert.NoError(b, Settle(r.Context(), 0)) })
		handler := parsed(b, `
match: all
rules:
  - {name: one, key: all, limits: 1/h}
  - {name: two, key: all, limits: 1/h, deadline: 1s}`).Middleware(client)(next)
		for range 3 {
			assert.Equal(b, good, status(handler, "GET /"))
		}
		assert.NoError(b, Settle(context.Background(), 0))
	})
}

// TestMiddleware_HashedHeader_IsNotInRedis, and overrides name it as clients send it.
func TestMiddleware_HashedHeader_IsNotInRedis(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var names []string
		report := httplimit.Report(func(_ *http.Request, o httplimit.Outcome) { names = append(names, o.Limiter) })
		handler := parsed(b, `
rules:
  - name: a
    key: [hashed_header:X-Api-Key, method]
    limits: 1/h
    overrides: [{key: [gone-4711, GET], ban: true}]`).Middleware(client, report)(&ok{})
		assert.Equal(b, good, status(handler, "GET /", "X-Api-Key", "secret-4711"))
		assert.Equal(b, many, status(handler, "GET /", "X-Api-Key", "secret-4711 "))
		assert.Equal(b, good, status(handler, "GET /", "X-Api-Key", "secret-4712"))
		assert.Equal(b, many, status(handler, "GET /", "X-Api-Key", "gone-4711"))
		assert.Equal(b, bad, status(handler, "GET /"))
		assert.NotContains(b, b.Redis.Dump()+strings.Join(names, " "), "471")
		assert.Contains(b, b.Redis.Dump(), "a:"+guard.Hash("secret-4711")+"|GET")
	})
}

// TestReload: requests after a reload see the new rules; what was taken stays taken, wherever the rule stands now.
func TestReload(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b, "rules: [{name: a, match: /a, key: ip, limits: 3/h}]")
		handler := set.Middleware(client)(&ok{})
		assert.Equal(b, good, status(handler, "GET /a"))
		assert.Equal(b, good, status(handler, "GET /a"))
		set.current.Store(parsed(b, "rules: [{name: b, match: /b, key: ip, limits: 1/h}, {name: a, match: /a, key: ip, limits: 4/h}]").current.Load())
		assert.Equal(b, "1", serve(handler, request("GET /a")).Header().Get("Ratelimit")[len(`"hour";r=`):][:1])
		assert.Equal(b, good, status(handler, "GET /a"))
		assert.Equal(b, many, status(handler, "GET /a"))
		set.current.Store(parsed(b, "rules: []").current.Load())
		assert.Equal(b, good, status(handler, "GET /a"))
	})
}

// TestAReloadKeepsWhatIsKnownOfRedis: an outage does not begin anew with it.
func TestAReloadKeepsWhatIsKnownOfRedis(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		changes := 0
		set := parsed(b, "rules: [{name: a, key: ip, limits: 3/h}]")
		handler := set.Middleware(client, httplimit.OnStoreChange(func(bool, error) { changes++ }))(&ok{})
		b.Redis.SetError("LOADING")
		status(handler, "GET /")
		set.current.Store(parsed(b, "rules: [{name: a, key: ip, limits: 4/h}]").current.Load())
		status(handler, "GET /")
		assert.Equal(b, 1, changes)
	})
}

// TestCluster: on a cluster rules of one hash tag decide together, others one after another; nothing fails.
func TestCluster(t *testing.T) {
	o := newOpener(nowhereCluster, httpDoor)
	require.True(t, o.cluster)
	require.False(t, newOpener(nowhere, httpDoor).cluster)
	steps := func(o *opener, file string) [][]string {
		v := parsed(t, file).current.Load()
		var names [][]string
		for _, s := range v.steps(o, request("GET /")) {
			_, err := s.limiter.Take(over, 1)
			require.True(t, errors.Is(err, context.Canceled), "%v", err)
			names = append(names, s.rules)
		}
		return names
	}
	file := "match: all\nrules: [{name: a, key: ip, limits: 1/h}, {name: b, key: all, limits: [2/h, {redisson: r}]}]"
	assert.Equal(t, [][]string{{"a", "b"}}, steps(newOpener(nowhere, httpDoor), file))
	assert.Equal(t, [][]string{{"a"}, {"b"}, nil}, steps(o, file))
	assert.Equal(t, [][]string{{"a", "b"}, nil}, steps(o, "domain: '{shop}'\n"+file))
	assert.Equal(t, [][]string{{"a", "b"}}, steps(o, strings.Replace("domain: '{shop}'\n"+file, "redisson: r", "redisson: '{shop}:r'", 1)))
}

// TestNoClient is an error at once.
func TestNoClient(t *testing.T) {
	assert.Panics(t, func() { new(Set).Middleware(nil) })
}

// TestPoliciesAreThoseOfPackageLimit: each is read with all of its fields.
func TestPoliciesAreThoseOfPackageLimit(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for text, want := range map[string]limit.Policy{
		`10/s`:                                 limit.SlidingWindow{Permits: 10, Interval: time.Second},
		`{permits: 10, per: 30s}`:              limit.SlidingWindow{Permits: 10, Interval: 30 * time.Second},
		`{rate: 10/1m30s, cells: 9}`:           limit.SlidingWindow{Permits: 10, Interval: 90 * time.Second, Cells: 9},
		`{rate: 10/min, policy: fixed_window}`: limit.FixedWindow{Permits: 10, Interval: time.Minute},
		`{rate: 10/2d, policy: fixed_window, aligned: true}`:         limit.FixedWindow{Permits: 10, Interval: 48 * time.Hour, Aligned: true},
		`{rate: 10/month, policy: calendar}`:                         limit.Calendar{Permits: 10, Unit: limit.Month},
		`{rate: 10/week, policy: calendar, in: UTC}`:                 limit.Calendar{Permits: 10, Unit: limit.Week, In: time.UTC},
		`{rate: 10/h, policy: sliding_log}`:                          limit.SlidingLog{Permits: 10, Interval: time.Hour},
		`{rate: 5/s, policy: token_bucket}`:                          limit.TokenBucket{Capacity: 5, Refill: 5, Interval: time.Second},
		`{rate: 5/s, policy: token_bucket, capacity: 20}`:            limit.TokenBucket{Capacity: 20, Refill: 5, Interval: time.Second},
		`{rate: 5/s, policy: leaky_bucket, capacity: 20}`:            limit.LeakyBucket{Capacity: 20, Leak: 5, Interval: time.Second},
		`{rate: 5/s, policy: smooth, burst: 2s}`:                     limit.Smooth{Permits: 5, Interval: time.Second, Burst: 2 * time.Second},
		`{rate: 5/s, policy: smooth, warm_up: 3s, cold_factor: 2.5}`: limit.Smooth{Permits: 5, Interval: time.Second, WarmUp: 3 * time.Second, ColdFactor: 2.5},
	} {
		s := parsed(t, "rules: [{name: a, key: ip, limits: "+text+"}]").current.Load()
		assert.Equal(t, []limit.Policy{want}, s.rules[0].limits.policies, text)
	}
	s := parsed(t, "rules: [{name: a, key: ip, limits: {rate: 1/day, policy: calendar, in: Europe/Berlin}}]").current.Load()
	p := s.rules[0].limits.policies[0].(limit.Calendar)
	assert.Equal(t, berlin.String(), p.In.String())
	r := parsed(t, `rules: [{name: a, limits: {redisson: q, rate: 5/s, type: per_client, keep_alive: 1h}}]`).current.Load()
	assert.Equal(t, rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 5, Interval: time.Second, KeepAlive: time.Hour}, *r.rules[0].limits.redisson[0].rate)
}
