package rules

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// authCall is a request of a proxy, and what it is answered. Its headers are "Name: value; ...".
type authCall struct {
	headers string
	code    int
}

// asked sends a request of the proxy 192.0.2.1.
func asked(h http.Handler, query, headers string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/auth"+query, nil)
	for header := range strings.SplitSeq(headers, "; ") {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	return serve(h, r)
}

// forwarded tests the answers to calls, one after another.
func forwarded(t *testing.T, file string, calls ...authCall) {
	t.Helper()
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		h := parsed(t, file).ForwardAuth(client)
		for i, c := range calls {
			assert.Equal(t, c.code, asked(h, "", c.headers).Code, "%d: %s", i, c.headers)
		}
	})
}

const authFile = `
domain: web
address: {trusted: [192.0.2.1, 10.0.0.0/8]}
rules:
  - {name: login, match: POST /login, key: ip, limits: {rate: 1/m, policy: fixed_window}}
  - {name: banned, match: /api/banned, ban: true}
  - name: api
    match: /api/
    key: header:X-Api-Key
    limits: {rate: 2/m, policy: fixed_window}
    overrides: [{key: gold, limits: {rate: 3/m, policy: fixed_window}}, {key: gone, ban: true}]
`

func TestForwardAuth_HeadersOfProxies_AreDecided(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		h := parsed(t, authFile).ForwardAuth(client)
		for i, c := range []struct {
			query   string
			headers string // "Name: value; ..."
			code    int
			wait    string // Retry-After
			left    string // RateLimit-Remaining
		}{
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login?next=/; X-Forwarded-For: 203.0.113.7", 200, "", "0"},
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.7", 429, "60", "0"},
			{"?denied=403", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.7", 403, "60", "0"},
			{"?denied=401", "X-Forwarded-Method: POST; X-Forwarded-Uri: /%6Cogin; X-Forwarded-For: 203.0.113.7", 401, "60", "0"},
			// The query of a client, which some proxies pass on.
			{"?denied=418", "X-Forwarded-Uri: /api/banned; X-Api-Key: k2", 403, "", ""},
			{"?denied=403&x=1", "X-Forwarded-Uri: /api/banned; X-Api-Key: k2", 403, "", ""},
			{"?denied=x", "X-Forwarded-Uri: /x", 200, "", ""},
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.8, 10.1.2.3", 200, "", "0"},
			// The client wrote the left address.
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login; X-Forwarded-For: 6.6.6.6, 203.0.113.8", 429, "60", "0"},
			{"", "X-Forwarded-Method: POST; X-Forwarded-Uri: /login", 503, "1", ""}, // no address
			{"", "X-Forwarded-Method: GET; X-Forwarded-Uri: /login; X-Forwarded-For: 203.0.113.7", 200, "", ""},
			{"", "X-Forwarded-Uri: /api/x; X-Api-Key: k1", 200, "", "1"},
			{"", "X-Forwarded-Uri: /api/y; X-Api-Key: k1", 200, "", "0"},
			{"", "X-Forwarded-Uri: /api/z; X-Api-Key: k1", 429, "60", "0"},
			{"", "X-Forwarded-Uri: /api/z; X-Api-Key: gold", 200, "", "2"},
			{"", "X-Forwarded-Uri: /api/z; X-Api-Key: gone", 403, "", ""},
			{"", "X-Forwarded-Uri: /api/z", 400, "", ""}, // no key
			{"?denied=403", "X-Forwarded-Uri: /api/z", 403, "", ""},
			{"", "X-Forwarded-Uri: /api/z; X-Api-Key: k1; X-Api-Key: 1", 400, "", ""},
			{"", "X-Forwarded-Uri: /api/banned; X-Api-Key: k2", 403, "", ""},
			{"", "X-Forwarded-Uri: //api/banned", 403, "", ""}, // another spelling, as nginx and others serve it
			{"", "X-Forwarded-Uri: /../banned", 400, "", ""},
			{"?denied=403", "X-Forwarded-Uri: /../banned", 403, "", ""}, // since nginx accepts no 400
			{"", "X-Forwarded-Uri: http://elsewhere.example/api/banned", 403, "", ""},
			{"", "X-Forwarded-Uri: \x01\xff%zz", 400, "", ""},
			{"", "X-Forwarded-Uri: /login#x", 400, "", ""},
			{"", "", 503, "1", ""}, // a proxy that reports no path
		} {
			w := asked(h, c.query, c.headers)
			assert.Equal(t, c.code, w.Code, "%d: %s", i, c.headers)
			assert.Equal(t, c.wait, w.Header().Get("Retry-After"), "%d: %s", i, c.headers)
			assert.Equal(t, c.left, w.Header().Get("RateLimit-Remaining"), "%d: %s", i, c.headers)
			if c.code >= 400 {
				assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
				assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			}
		}
	})
}

func TestForwardAuth_SeveralHosts_LastIsOfTheNearestProxy(t *testing.T) {
	forwarded(t, `rules: [{name: api, match: API.example.org/, key: all, limits: 1/h}]`,
		authCall{"X-Forwarded-Host: other.example.org, api.example.org; X-Forwarded-Uri: /", 200},
		authCall{"X-Forwarded-Host: other.example.org, api.example.org; X-Forwarded-Uri: /", 429},
		authCall{"X-Forwarded-Host: api.example.org, other.example.org; X-Forwarded-Uri: /", 200})
}

// TestForwardAuth_AbsoluteURI_HasTheHost: by the rules of a host header.
func TestForwardAuth_AbsoluteURI_HasTheHost(t *testing.T) {
	const file = "forward_auth: {uri_header: X-Original-URL}\nrules: [{name: shop, match: shop.example/, key: all, limits: 1/h}]"
	for _, uri := range []string{
		"https://shop.example/buy", "http://SHOP.example.:8443/buy?x=://y/", "https://me:secret@shop.example/", "https://shop.example",
		"https://shop.example?x", "x-scheme://shop.example/r/https://elsewhere.example/",
	} {
		forwarded(t, file, authCall{"X-Original-URL: " + uri, 200}, authCall{"X-Original-URL: " + uri, 429},
			authCall{"X-Original-URL: https://elsewhere.example/r/https://shop.example/", 200},
			authCall{"X-Original-URL: https://elsewhere.example/buy", 200},
			authCall{"X-Original-URL: " + uri + "; X-Forwarded-Host: elsewhere.example", 429},
			authCall{"X-Original-URL: https://elsewhere.example/; X-Forwarded-Host: shop.example", 429})
	}
	// A proxy may join its scheme and its host with the absolute URI of a client.
	forwarded(t, file, authCall{"X-Original-URL: https://shop.examplehttp://shop.example/buy", 400},
		authCall{"X-Original-URL: https://shop.example:443http://shop.example/buy", 400},
		authCall{"X-Original-URL: https:///buy", 400}, authCall{"X-Original-URL: https://[::1/buy", 400})
}

// TestForwardAuth_NoHost_IsAFailure, if a rule needs the host: it would never match.
func TestForwardAuth_NoHost_IsAFailure(t *testing.T) {
	const rule = "rules: [{name: shop, match: shop.example/, key: all, limits: 1/h}]"
	forwarded(t, rule, authCall{"X-Forwarded-Uri: /buy", 503}, authCall{"X-Forwarded-Uri: /buy; X-Forwarded-Host: shop.example", 200})
	forwarded(t, "rules: [{name: all, match: /buy, key: all, limits: 1/h}]", authCall{"X-Forwarded-Uri: /buy", 200})
}

// TestForwardAuth_Path_IsNeededOnlyByPatterns: a file without them refuses no path, and needs none.
func TestForwardAuth_Path_IsNeededOnlyByPatterns(t *testing.T) {
	forwarded(t, "rules: [{name: a, key: all, limits: 9/h}]",
		authCall{"X-Forwarded-Uri: /x/../a", 200}, authCall{"", 200})
	forwarded(t, "escaped_slashes: allow\nrules: [{name: a, match: '/p/{x...}', key: path:x, limits: 1/h}]",
		authCall{"X-Forwarded-Uri: /p/a%2Fb", 200}, authCall{"X-Forwarded-Uri: /p/a/b", 429},
		authCall{"X-Forwarded-Uri: /p/..%2Flogin", 400})
}

// TestForwardAuth_OtherHeaders_AreIgnored: a client's own do not count, and the proxy's is the last.
func TestForwardAuth_OtherHeaders_AreIgnored(t *testing.T) {
	rule := "rules: [{name: login, match: POST a.example/login, key: all, limits: 1/h}]"
	const own = "; X-Original-Uri: /x; X-Original-Url: /x; X-Original-Method: GET; X-Original-Host: b.example"
	forwarded(t, rule,
		authCall{"X-Forwarded-Method: POST; X-Forwarded-Host: a.example; X-Forwarded-Uri: /login" + own, 200},
		authCall{"X-Forwarded-Method: POST; X-Forwarded-Host: a.example; X-Forwarded-Uri: /login" + own, 429})
	forwarded(t, "forward_auth: {method_header: x-original-method, host_header: X-Original-Host, uri_header: X-Original-Url}\n"+rule,
		authCall{"X-Original-Method: POST; X-Original-Host: a.example; X-Original-Url: /login", 200},
		authCall{"X-Original-Method: POST; X-Original-Host: a.example; X-Original-Url: /x; X-Original-Url: /login; " +
			"X-Forwarded-Uri: /x; X-Forwarded-Method: GET", 429})
}

// TestForwardAuth_InFlight_IsHeldForTheLease, unless a later rule denies the request.
func TestForwardAuth_InFlight_IsHeldForTheLease(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		h := parsed(t, `
match: all
rules:
  - {name: places, key: all, limits: {in_flight: 2, lease: 1m}}
  - {name: costly, match: /costly, key: all, cost: 5, limits: 5/h}`).ForwardAuth(client)
		get := func(path string) int {
			code := asked(h, "", "X-Forwarded-Host: a; X-Forwarded-Uri: "+path).Code
			synctest.Wait()
			return code
		}
		assert.Equal(t, good, get("/costly"))
		assert.Equal(t, many, get("/costly"), "which keeps no place")
		assert.Equal(t, good, get("/"))
		assert.Equal(t, many, get("/"))
		time.Sleep(time.Minute)
		assert.Equal(t, good, get("/"))
	})
}

// TestForwardAuth_CookieAndQuery_AreOfTheRequest that the proxy describes, whose response is unknown: nothing
// is refunded.
func TestForwardAuth_CookieAndQuery_AreOfTheRequest(t *testing.T) {
	forwarded(t, "rules: [{name: a, key: [cookie:sid, query:key], limits: 1/h, refund: 2xx}]",
		authCall{"X-Forwarded-Uri: /?key=a; Cookie: sid=b", 200}, authCall{"X-Forwarded-Uri: /x?key=a; Cookie: sid=b", 429},
		authCall{"X-Forwarded-Uri: /?key=b; Cookie: sid=b", 200}, authCall{"X-Forwarded-Uri: /; Cookie: sid=b", 400})
}

// TestForwardAuth_Connection_HidesNoHeadersOfTheProxy: a client cannot name those that the proxy wrote, but
// those of its own count as missing.
func TestForwardAuth_Connection_HidesNoHeadersOfTheProxy(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		h := parsed(t, `
address: {trusted: 192.0.2.1}
defaults: {on_failure: open}
rules: [{name: a, match: POST b/x, key: [ip, header:X-Tenant], limits: 1/h}]`).ForwardAuth(client)
		const proxied = "X-Forwarded-Method: POST; X-Forwarded-Host: b; X-Forwarded-Uri: /x; X-Forwarded-For: 203.0.113.7; X-Tenant: a; "
		for _, c := range []struct {
			connection string
			want       int
		}{
			{"close", good}, {"X-Forwarded-Method", many}, {"X-Forwarded-Host", many}, {"X-Forwarded-Uri", many},
			{"X-Forwarded-For", many}, {"X-Tenant", bad},
		} {
			assert.Equal(t, c.want, asked(h, "", proxied+"Connection: "+c.connection).Code, c.connection)
		}
	})
}

// TestForwardAuth_UntrustedProxy_IsAFailure: its address would be that of all clients.
func TestForwardAuth_UntrustedProxy_IsAFailure(t *testing.T) {
	rule := "address: {trusted: [10.0.0.0/8]}\nrules: [{name: a, key: ip, limits: 1/h, on_failure: MODE}]"
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		for mode, want := range map[string]int{"open": 200, "closed": 503} {
			var failed error
			report := httplimit.Report(func(_ *http.Request, o limit.Outcome) { failed = o.Err })
			h := parsed(t, strings.Replace(rule, "MODE", mode, 1)).ForwardAuth(client, report)
			assert.Equal(t, want, asked(h, "", "X-Forwarded-For: 203.0.113.7").Code)
			assert.EqualError(t, failed, "rules: the proxy 192.0.2.1 is not trusted: add it to address.trusted")
		}
	})
}

// FuzzForwardAuth: any headers of a proxy get a response.
func FuzzForwardAuth(f *testing.F) {
	f.Add("POST", "/login", "203.0.113.7", "key")
	f.Add("", "\x00", "::1%eth0", "\xff")
	f.Add("GET", "/api/%zz", "a, b,,", "")
	client, _ := guardtest.Connect(f)
	handler := parsed(f, authFile).ForwardAuth(client)
	f.Fuzz(func(t *testing.T, method, uri, forwarded, key string) {
		r := httptest.NewRequest(http.MethodGet, "/auth", nil)
		r.Header = http.Header{"X-Forwarded-Method": {method}, "X-Forwarded-Uri": {uri}, "X-Forwarded-For": {forwarded},
			"X-Api-Key": {key}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Contains(t, []int{200, 400, 403, 429, 503}, w.Code)
	})
}
