package rules

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// Statuses.
const (
	good = http.StatusOK
	bad  = http.StatusBadRequest
	many = http.StatusTooManyRequests
	no   = http.StatusForbidden
	down = http.StatusServiceUnavailable
)

// call is a request and the status of its response.
type call struct {
	what    string
	headers []string
	want    int
}

// decisionTest is a file of rules, and consecutive requests at the same time.
type decisionTest struct {
	file  string
	calls []call
}

func decisions(t *testing.T, tests map[string]decisionTest) {
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				handler := parsed(t, tt.file).Middleware(client)(&ok{})
				for i, c := range tt.calls {
					assert.Equal(t, c.want, status(handler, c.what, c.headers...), "%d: %s %v", i, c.what, c.headers)
				}
			})
		})
	}
}

func TestMiddleware_Requests_MeetTheirRules(t *testing.T) {
	h := func(pairs ...string) []string { return pairs }
	decisions(t, map[string]decisionTest{
		"the first rule decides": {`
rules:
  - {name: a, match: POST /login, key: ip, limits: 1/h}
  - {name: b, match: /, key: ip, limits: 2/h}`,
			[]call{{"POST /login", nil, good}, {"POST /login", nil, many}, {"GET /login", nil, good}, {"GET /x", nil, good},
				{"GET /x", nil, many}}},
		"all rules decide, and permits are released if another denies": {`
match: all
rules:
  - {name: wide, key: all, limits: 3/h, wait: 1ms}
  - {name: narrow, match: /a, key: all, limits: 1/h}`,
			[]call{{"GET /a", nil, good}, {"GET /a", nil, many}, {"GET /a", nil, many}, {"GET /b", nil, good},
				{"GET /b", nil, good}, {"GET /b", nil, many}}},
		"all rules decide atomically": {`
match: all
rules:
  - {name: wide, key: all, limits: 3/h}
  - {name: narrow, match: /a, key: all, limits: 1/h}`,
			[]call{{"GET /a", nil, good}, {"GET /a", nil, many}, {"GET /a", nil, many}, {"GET /b", nil, good},
				{"GET /b", nil, good}, {"GET /b", nil, many}}},
		"several limits decide atomically": {`
rules: [{name: a, key: all, limits: [3/h, {rate: 1/m, policy: fixed_window}]}]`,
			[]call{{"GET /", nil, good}, {"GET /", nil, many}, {"GET /", nil, many}}},
		"keys": {`
rules:
  - {name: h, match: /h, key: header:X-Tenant, limits: 1/h}
  - {name: p, match: "/p/{id}", key: path:id, limits: 1/h}
  - {name: r, match: "/r/{all...}", key: path:all, limits: 1/h}
  - {name: m, match: /m, key: method, limits: 1/h}
  - {name: c, match: /c, key: [constant:x, method], limits: 1/h}
  - {name: s, match: "/s/{rest...}", key: [ip, path:rest], limits: 1/h}`,
			[]call{
				{"GET /h", h("X-Tenant", "a"), good}, {"GET /h", h("X-Tenant", "b"), good}, {"GET /h", h("X-Tenant", "a"), many},
				{"GET /h", nil, bad},
				{"GET /p/1", nil, good}, {"GET /p/2", nil, good}, {"GET /p/%31", nil, many},
				{"GET /r/a/b", nil, good}, {"GET /r/a", nil, good}, {"GET /r/a/b", nil, many}, {"GET /r/", nil, good},
				{"GET /r/", nil, many},
				{"GET /m", nil, good}, {"PUT /m", nil, good}, {"PUT /m", nil, many},
				{"GET /c", nil, good}, {"PUT /c", nil, good}, {"PUT /c", nil, many},
				{"GET /s/", nil, good}, {"GET /s/", nil, many}, {"GET /s/x", nil, good},
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
				{"GET /", h("X-Tenant", "gold"), good}, {"GET /", h("X-Tenant", "gold"), good},
				{"GET /", h("X-Tenant", "gold"), many},
				{"GET /", h("X-Tenant", "iron"), good}, {"GET /", h("X-Tenant", "iron"), many},
				{"GET /", h("X-Tenant", "evil"), no}, {"GET /", h("X-Tenant", "zero"), no},
				{"GET /", h("X-Tenant", "self"), good}, {"GET /", h("X-Tenant", "self"), good},
			}},
		"a key of any bytes is overridden": {`
rules:
  - {name: one, match: /one, key: header:K, limits: 9/h, overrides: [{key: 'a|b', ban: true}, {key: 'DOM\me',
	ban: true}]}
  - {name: two, match: /two, key: [header:K, method], limits: 9/h, overrides: [{key: ['a|b', GET], ban: true},
	{key: ['a', GET], ban: true}]}`,
			[]call{
				{"GET /one", h("K", "a|b"), no}, {"GET /one", h("K", `DOM\me`), no}, {"GET /one", h("K", "a"), good},
				{"GET /two", h("K", "a|b"), no}, {"GET /two", h("K", `a\|b`), good}, {"PUT /two", h("K", "a|b"), good},
				{"GET /two", h("K", "a"), no},
			}},
		"limits without a key ignore the key of the defaults": {`
defaults: {key: header:K}
rules:
  - {name: ban, match: /ban, ban: true}
  - {name: some, match: /some, ban: true, overrides: [{key: x, unlimited: true}]}`,
			[]call{{"GET /ban", nil, no}, {"GET /some", nil, no}, {"GET /some", h("K", "x"), good}}},
		"an address is overridden, and a network banned": {`
rules:
  - {name: bad, match: {ranges: [198.51.100.0/24]}, ban: true}
  - name: clients
    key: ip
    limits: 1/h
    overrides: [{key: "2001:db8::1", limits: 2/h}]
address: {trusted: [192.0.2.0/24], header: X-Real-IP}`,
			[]call{
				{"GET /", h("X-Real-IP", "198.51.100.7"), no}, {"GET /", h("X-Real-IP", "203.0.113.1"), good},
				{"GET /", h("X-Real-IP", "203.0.113.1"), many},
				{"GET /", nil, down}, {"GET /", h("X-Real-IP", "2001:db8::1"), good},
				{"GET /", h("X-Real-IP", "2001:db8::2"), good},
				{"GET /", h("X-Real-IP", "2001:db8::3"), many}, {"GET /", h("X-Real-IP", "2001:db8:0:1::1"), good},
				{"GET /", h("X-Real-IP", "2001:db8:0:1::1"), many},
			}},
		"an IPv4 network is a client": {`
address: {trusted: [10.0.0.0/8, 192.0.2.1], ipv4_bits: 24}
rules: [{name: a, key: ip, limits: 1/h, overrides: [{key: 198.51.100.0/24, ban: true}]}]`,
			[]call{
				{"GET /", h("X-Forwarded-For", "203.0.113.1"), good}, {"GET /", h("X-Forwarded-For", "203.0.113.2"), many},
				{"GET /", h("X-Forwarded-For", "203.0.114.2"), good}, {"GET /", h("X-Forwarded-For", "198.51.100.7"), no},
			}},
		"costs": {`
rules:
  - {name: c, match: /c, key: all, limits: 5/h, cost: 3}
  - {name: h, match: /h, key: all, limits: 5/h, cost: header:X-Cost}
  - {name: l, match: /l, key: all, limits: 5/h, cost: content_length/10}`,
			[]call{
				{"GET /c", nil, good}, {"GET /c", nil, many},
				{"GET /h", h("X-Cost", "4"), good}, {"GET /h", h("X-Cost", "2"), many}, {"GET /h", h("X-Cost", "-2"), bad},
				{"GET /h", nil, bad},
				{"GET /h", h("X-Cost", "0"), good}, {"GET /h", h("X-Cost", "0"), many}, // 1 at least
				{"GET /l", nil, good},
			}},
		"skips": {`
defaults: {skip: {paths: [/health, /static/], methods: [OPTIONS]}}
rules:
  - {name: never, match: /never, key: all, limits: 1/h}
  - {name: a, key: all, limits: 1/h}`,
			[]call{{"GET /health", nil, good}, {"GET /static/x", nil, good}, {"OPTIONS /x", nil, good}, {"GET /x", nil, good},
				{"GET /healthy", nil, many}}},
		"a range is skipped": {`
rules: [{name: a, key: all, limits: 1/h, skip: {ranges: [192.0.2.0/24]}}]`,
			[]call{{"GET /", nil, good}, {"GET /", nil, good}}},
		"a request without its key is refused": {`
defaults: {key: header:K, on_failure: open}
rules: [{name: a, limits: 1/h}]`,
			[]call{{"GET /", nil, bad}}},
		"a request without its key is decided by the failure mode, and a path is refused": {`
on_invalid: on_failure
defaults: {key: header:K}
rules: [{name: a, match: /open, limits: 1/h, on_failure: open}, {name: b, match: /closed, limits: 1/h}]`,
			[]call{{"GET /open", nil, good}, {"GET /closed", nil, down}, {"GET /x/../open", nil, bad}}},
		"shadow": {`
defaults: {shadow: true}
rules: [{name: a, match: /ban, ban: true}, {name: b, key: all, limits: 1/h}]`,
			[]call{{"GET /", nil, good}, {"GET /", nil, good}, {"GET /ban", nil, good}}},
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
		"a ban whose cost is unknown": {`
rules: [{name: a, key: header:K, limits: 9/h, cost: header:X-Cost, overrides: [{key: x, ban: true}]}]`,
			[]call{{"GET /", h("K", "x"), no}, {"GET /", h("K", "y"), bad},
				{"GET /", h("K", "y", "X-Cost", "1", "X-Cost", "1"), bad}, {"GET /", h("K", "y", "X-Cost", "x"), bad}}},
		"more limits than decide at once": {`
match: all
rules:
  - {name: a, key: all, limits: [9/h, {rate: 9/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}
  - {name: b, key: all, limits: [9/h, {rate: 9/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}
  - {name: c, key: all, limits: [9/h, {rate: 9/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}
  - {name: d, key: all, limits: [9/h, {rate: 2/h, policy: fixed_window}, {rate: 9/h, policy: sliding_log}]}`,
			[]call{{"GET /", nil, good}, {"GET /", nil, good}, {"GET /", nil, many}}},
	})
}

// TestMiddleware_UnknownAddress_IsDecidedByTheFailureMode of the rule, unless that is open, or the rule
// only bans: then the next rule decides.
func TestMiddleware_UnknownAddress_IsDecidedByTheFailureMode(t *testing.T) {
	for file, want := range map[string][]int{
		"{name: a, match: {ranges: 198.51.100.0/24}, ban: true}":                                     {good, many},
		"{name: a, match: {ranges: 198.51.100.0/24}, ban: true, on_failure: open}":                   {good, many},
		"{name: a, match: {ranges: 198.51.100.0/24}, ban: true, shadow: true}":                       {good, many},
		"{name: a, match: {ranges: 198.51.100.0/24}, key: all, limits: 9/h}":                         {down, down},
		"{name: a, match: {ranges: 198.51.100.0/24}, key: all, limits: 9/h, on_failure: open}":       {good, many},
		"{name: a, match: {headers: {X: y}, ranges: 198.51.100.0/24}, ban: true}":                    {good, many},
		"{name: a, match: {pattern: POST /, ranges: 198.51.100.0/24}, ban: true}":                    {good, many},
		"{name: a, match: {headers: {X: z}, ranges: 198.51.100.0/24}, ban: true}":                    {good, many},
		"{name: a, match: [{ranges: 198.51.100.0/24}, {headers: {X: y}}], key: all, limits: 0/h}":    {no, no},
		"{name: a, match: {ranges: 198.51.100.0/24}, key: all, limits: 9/h, on_failure: {local: 1}}": {down, down},
		"{name: a, match: /, key: all, limits: 1/h, skip: {ranges: [0.0.0.0/0, '::/0']}}":            {good, many},
	} {
		for _, match := range []string{"first", "all"} {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				next := "  - {name: next, match: [/, {grpc: '*'}], key: all, limits: 1/h}\n"
				handler := parsed(t, "match: "+match+"\nrules:\n  - "+file+"\n"+next).Middleware(client)(&ok{})
				for i, status := range want {
					r := request("GET /", "X", "y")
					r.RemoteAddr = "@"
					assert.Equal(t, status, serve(handler, r).Code, "%s %d", file, i)
				}
			})
		}
	}
}

func TestMiddleware_CookiesAndQueries_AreKeys(t *testing.T) {
	h := func(pairs ...string) []string { return pairs }
	decisions(t, map[string]decisionTest{
		"a cookie": {`
rules: [{name: a, key: cookie:sid, limits: 1/h, overrides: [{key: gold, unlimited: true}, {key: gone, ban: true}]}]`,
			[]call{
				{"GET /", h("Cookie", "x=1; sid=a; sidx=b"), good}, {"GET /", h("Cookie", "sid=b"), good},
				{"GET /", h("Cookie", "sid=a;SIDS=b"), many}, {"GET /", h("Cookie", `a=b; sid="a"`), many},
				{"GET /", nil, bad}, {"GET /", h("Cookie", "sid="), bad}, {"GET /", h("Cookie", "sid"), bad},
				{"GET /", h("Cookie", "sid=c; sid=d"), bad}, {"GET /", h("Cookie", "sid=c", "Cookie", "sid=d"), bad},
				{"GET /", h("Cookie", "sid="+strings.Repeat("x", 8193)), bad},
				{"GET /", h("Cookie", "sid=gold"), good}, {"GET /", h("Cookie", "sid=gold"), good},
				{"GET /", h("Cookie", `sid="gold"`), good}, {"GET /", h("Cookie", `sid="gold"`), many}, // not the exact one
				{"GET /", h("Cookie", `sid="gone"`), no},
			}},
		"a parameter of the query": {`
rules: [{name: a, key: "query:api key", limits: 1/h, overrides: [{key: "go ne", ban: true}]}]`,
			[]call{
				{"GET /?x&api%20key=a+b&y=1", nil, good}, {"GET /?api+key=%61%20b", nil, many}, {"GET /?api+key=b", nil, good},
				{"GET /", nil, bad}, {"GET /?api+key=", nil, bad}, {"GET /?api+key=c&api%20key=d", nil, bad},
				{"GET /?api+key=c&x=1;api+key=d", nil, bad}, {"GET /?api+key=%zz", nil, bad}, {"GET /?api+key=c&y=%zz", nil, good},
				{"GET /?api+key=go+ne", nil, no}, {"GET /?API+KEY=c", nil, bad},
			}},
	})
}

// TestMiddleware_Refund_CountsOtherResponses: a request counts until its response has begun. Settle, and a
// panic, take precedence.
func TestMiddleware_Refund_CountsOtherResponses(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(t, `
match: all
defaults: {refund: [2xx, 404]}
rules:
  - {name: a, key: all, limits: 2/h, headers: none}
  - {name: b, key: all, limits: 5/h, cost: 2}`).Middleware(client)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/401":
				w.WriteHeader(http.StatusUnauthorized)
			case "/404":
				w.WriteHeader(http.StatusNotFound)
			case "/panic":
				panic(http.ErrAbortHandler)
			case "/settle":
				assert.NoError(t, Settle(r.Context(), 1))
			}
		}))
		for range 9 {
			assert.Equal(t, good, status(handler, "GET /"))
			assert.Equal(t, http.StatusNotFound, status(handler, "GET /404"))
		}
		assert.Equal(t, http.StatusUnauthorized, status(handler, "GET /401"))
		assert.Panics(t, func() { status(handler, "GET /panic") })
		assert.Equal(t, many, status(handler, "GET /"))
		time.Sleep(2 * time.Hour)
		assert.Equal(t, good, status(handler, "GET /settle"))
		assert.Equal(t, good, status(handler, "GET /settle"))
		assert.Equal(t, many, status(handler, "GET /"))
	})
}

// TestMiddleware_RefundAfterHijack_IsNone: the status of a response is unknown after a Hijack, also if it
// fails, as with HTTP/2.
func TestMiddleware_RefundAfterHijack_IsNone(t *testing.T) {
	hijack := func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() }
	for name, answer := range map[string]func(w http.ResponseWriter){
		"a status afterwards": func(w http.ResponseWriter) { hijack(w); w.WriteHeader(http.StatusOK) },
		"nothing afterwards":  hijack,
		"a status before":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK); hijack(w) },
		"101 before":          func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols); hijack(w) },
		"101 alone":           func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) },
	} {
		for _, hijackable := range []bool{false, true} {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				handler := parsed(t, "rules: [{name: login, key: ip, refund: 2xx, limits: 1/h}]").Middleware(client)(
					http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
				send := func() int {
					w := httptest.NewRecorder()
					if hijackable {
						handler.ServeHTTP(hijacked{w}, request("GET /"))
					} else {
						handler.ServeHTTP(w, request("GET /"))
					}
					return w.Code
				}
				send()
				assert.Equal(t, many, send(), name)
			})
		}
	}
}

// hijacked is a ResponseWriter whose connection can be hijacked.
type hijacked struct{ http.ResponseWriter }

func (hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, other := net.Pipe()
	return conn, nil, other.Close()
}

// TestMiddleware_StatusAndHeaders_AreOfTheRule.
func TestMiddleware_StatusAndHeaders_AreOfTheRule(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(t, `
defaults: {key: all, status: 503, headers: x_rate_limit}
rules:
  - {name: a, match: /a, limits: 1/h}
  - {name: b, match: /b, limits: 1/h, status: 404, headers: none}
  - {name: c, match: /c, limits: 1/h, status: 429, headers: three_headers}
  - {name: d, match: /d, ban: true}
  - {name: e, match: /e, ban: true, status: 429}`).Middleware(client)(&ok{})
		for _, c := range []struct {
			path   string
			status int
			header string
		}{
			{"/a", 503, "X-Ratelimit-Limit"}, {"/b", 404, ""}, {"/c", 429, "Ratelimit-Limit"}, {"/d", 503, ""}, {"/e", 429, ""},
		} {
			status(handler, "GET "+c.path)
			w := serve(handler, request("GET "+c.path))
			assert.Equal(t, c.status, w.Code, c.path)
			for _, name := range []string{"X-Ratelimit-Limit", "Ratelimit-Limit", "Ratelimit", "Ratelimit-Policy"} {
				assert.Equal(t, name == c.header, w.Header().Get(name) != "", c.path+name)
			}
			assert.Contains(t, w.Body.String(), fmt.Sprintf(`"status":%d`, c.status))
		}
	})
}
