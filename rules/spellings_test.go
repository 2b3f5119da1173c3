package rules

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestMiddleware_HeaderThatAProxyRemoves_GetsNoMore: what a client names in Connection, a ReverseProxy behind
// the rules takes out of the request.
func TestMiddleware_HeaderThatAProxyRemoves_GetsNoMore(t *testing.T) {
	h := func(pairs ...string) []string { return pairs }
	decisions(t, map[string]decisionTest{
		"a key": {`
rules:
  - {name: tenants, match: {headers: {X-Tenant: "*"}}, key: header:X-Tenant, limits: 9/m, overrides: [{key: gold, unlimited: true}]}
  - {name: anonymous, key: ip, limits: 1/m}`,
			[]call{
				{"GET /", h("X-Tenant", "a", "Connection", "x-tenant"), bad},
				{"GET /", h("X-Tenant", "a", "Connection", "close, X-Tenant"), bad},
				{"GET /", h("X-Tenant", "gold", "Connection", "close", "Connection", "\tX-TENANT"), bad},
				{"GET /", h("X_Tenant", "gold"), bad}, {"GET /", h("X-Tenant", "gold", "Connection", "X-Ten"), good},
			}},
		"a match": {`
rules:
  - {name: tenants, match: {headers: {X-Tenant: "*"}}, key: ip, limits: 4/m}
  - {name: anonymous, key: ip, limits: 2/m}`,
			[]call{
				{"GET /", h("X-Tenant", "a", "Connection", "x-tenant"), good}, {"GET /", h("X_Tenant", "a"), good},
				{"GET /", h("X-Tenant", "a", "Connection", "x-tenant"), many}, {"GET /", h("X-Tenant", "a"), good},
				{"GET /", h("X-Tenant", "a", "Connection", "keep-alive"), good}, {"GET /", h("X-Tenant", "a"), many},
			}},
		"a ban, which other servers would pass": {`
rules:
  - {name: gone, match: {headers: {X-Key: evil}}, ban: true}
  - {name: rest, key: all, limits: 9/m}`,
			[]call{
				{"GET /", h("X-Key", "evil", "Connection", "x-key"), no}, {"GET /", h("X_KEY", "evil"), no},
				{"GET /", h("X-Key", "other", "Connection", "x-key"), good},
			}},
		"a cookie and a cost": {`
rules:
  - {name: a, match: /a, key: cookie:sid, limits: 9/m}
  - {name: b, match: /b, key: all, cost: header:X-Cost, limits: 9/m}`,
			[]call{
				{"GET /a", h("Cookie", "sid=a", "Connection", "cookie"), bad}, {"GET /a", h("Cookie", "sid=a"), good},
				{"GET /b", h("X-Cost", "1", "Connection", "x-cost"), bad}, {"GET /b", h("X-Cost", "1"), good},
			}},
		"an upgrade": {`
rules:
  - {name: sockets, match: {headers: {Upgrade: websocket}}, key: ip, limits: 2/m}
  - {name: rest, key: ip, limits: 1/m}`,
			[]call{
				{"GET /", h("Upgrade", "websocket", "Connection", "Upgrade"), good}, {"GET /", h("Upgrade", "websocket"), good},
				{"GET /", h("Upgrade", "websocket", "Connection", "keep-alive, Upgrade"), many}, {"GET /", nil, many},
			}},
	})
}

// TestMiddleware_Trailer_GetsNoMore: a server may have the fields of a trailer among the others.
func TestMiddleware_Trailer_GetsNoMore(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(t, one("key: header:X-Tenant, limits: 9/m")).Middleware(client)(&ok{})
		r := request("POST /", "X-Tenant", "a")
		r.Trailer = http.Header{"X-Tenant": nil}
		assert.Equal(t, bad, serve(handler, r).Code)
		r.Trailer = http.Header{"X-Sum": nil}
		assert.Equal(t, good, serve(handler, r).Code)
	})
}

// TestMiddleware_Fragment_IsRefused: other servers end a path or a query at it.
func TestMiddleware_Fragment_IsRefused(t *testing.T) {
	const query = `
rules:
  - {name: a, key: query:token, limits: 1/h, overrides: [{key: REAL, ban: true}, {key: gold, unlimited: true}]}`
	decisions(t, map[string]decisionTest{
		"in a query": {query, []call{
			{"GET /?token=x#1", nil, bad}, {"GET /?token=x#2", nil, bad}, {"GET /?token=REAL#", nil, bad},
			{"GET /?token=gold#", nil, bad},
			{"GET /?x=1#&token=x", nil, bad}, {"GET /#?token=x", nil, bad}, {"GET /?token=x%23", nil, good},
			{"GET /?token=REAL", nil, no},
		}},
		"whatever on_invalid says": {"on_invalid: on_failure\ndefaults: {on_failure: open}" + query, []call{
			{"GET /?token=REAL#1", nil, bad}, {"GET /", nil, good},
		}},
		"in a path": {"rules: [{name: a, match: /login, key: all, limits: 9/h}]", []call{
			{"GET /login#", nil, bad}, {"GET /login#?x", nil, bad}, {"GET /x#/login", nil, bad}, {"GET /login%23", nil, good},
		}},
		"of no meaning": {"rules: [{name: a, key: all, limits: 9/h}]", []call{{"GET /?x#1", nil, good}, {"GET /x#1", nil, good}}},
		"in shadow":     {"rules: [{name: a, key: query:x, limits: 9/h, shadow: true}]", []call{{"GET /?x=1#1", nil, good}}},
	})
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		h := parsed(t, query).ForwardAuth(client)
		for target, want := range map[string]int{"/?token=x#1": bad, "/#?token=x": bad, "/?token=REAL#": bad,
			"/?token=REAL": no,
			"/?token=x%23": good, "http://a/?token=x#1": bad} {
			assert.Equal(t, want, asked(h, "", "X-Forwarded-Host: a; X-Forwarded-Uri: "+target).Code, target)
		}
	})
}

// TestMiddleware_CookieSpellings_GetNoMore: each row is read as the cookie session=abc by another server, by
// the page on rules the same cookie or an invalid one.
func TestMiddleware_CookieSpellings_GetNoMore(t *testing.T) {
	for cookie, want := range map[string]int{
		"session=abc":                    many,
		`session="abc"`:                  many,
		" session = abc ":                many,
		"x=1; session=abc; y=2":          many,
		"session=%61bc":                  many, // PHP, Rack, Express
		"session=%61%62%63":              many,
		`session="%61bc"`:                many,
		`session="\141bc"`:               bad, // Python
		`session="\abc"`:                 bad, // Tomcat
		`session="abcX`:                  bad, // Express
		"$Version=1; session=abc":        bad, // Tomcat
		`session=abc; $Path="/"`:         bad,
		"session=abc, x=y":               bad, // Rack 1
		"session=abc x=y":                bad, // Python
		"session=abc\tx=y":               bad,
		"session=x; y=1 session=abc":     bad,
		"session=x; y=1, session=abc":    bad,
		"session=x; y=1 session = abc":   bad,
		`session=x; y="1" session="abc"`: bad,
		"session=x; session=abc":         bad,
		"session=x; %73ession=abc":       bad, // old PHP and Rack
		"session=x; SESSION=abc":         bad, // ASP.NET
		"session=x; ,session=abc":        bad, // Rack 1
		"session=x; +%73ession=abc":      bad,
		"session=x; session[]=abc":       bad, // PHP
		"session=j:%22abc%22":            bad, // Express
		"session=%61bc%":                 bad,
		"session=x; note=the session":    good,
		"session=x; note=session%3Dabc":  good,
		"session=x; sessions=abc; session2=abc; my-session=abc": good,
	} {
		guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
			handler := parsed(t, "rules: [{name: a, key: cookie:session, limits: 1/h}]").Middleware(client)(&ok{})
			require.Equal(t, good, status(handler, "GET /", "Cookie", "session=abc"))
			assert.Equal(t, want, status(handler, "GET /", "Cookie", cookie), cookie)
		})
	}
	decisions(t, map[string]decisionTest{
		"a space": {"rules: [{name: a, key: cookie:sid, limits: 1/h}]", []call{
			{"GET /", []string{"Cookie", "sid=a+b"}, good}, {"GET /", []string{"Cookie", "sid=a%20b"}, many},
			{"GET /", []string{"Cookie", "sid=a%2Bb"}, many}, {"GET /", []string{"Cookie", "sid=a%2bb"}, many},
		}},
		"overrides": {"rules: [{name: a, key: cookie:user_id, limits: 1/h, overrides: [{key: 's%3Agone', ban: true}, {key: gold, unlimited: true}]}]",
			[]call{
				{"GET /", []string{"Cookie", "user_id=s%3Agone"}, no}, {"GET /", []string{"Cookie", "user_id=s:gone"}, no},
				{"GET /", []string{"Cookie", "user_id=s%3agon%65"}, no},
				{"GET /", []string{"Cookie", "user.id=s:gone; user_id=x"}, bad},
				{"GET /", []string{"Cookie", "user_id=g%6fld"}, good}, {"GET /", []string{"Cookie", "user_id=g%6fld"}, many},
				{"GET /", []string{"Cookie", "user_id=gold"}, good}, {"GET /", []string{"Cookie", "user_id=gold"}, good},
			}},
	})
}

// TestMiddleware_QuerySpellings_GetNoMore: PHP and others read other names as that of the parameter.
func TestMiddleware_QuerySpellings_GetNoMore(t *testing.T) {
	for query, want := range map[string]int{
		"api_key=abc": many, "api_key=%61bc": many, "%61pi_key=abc": many, "api_key=x&api_key=abc": bad,
		"api_key=x;api_key=abc": bad,
		"api_key=x&api.key=abc": bad, "api_key=x&api+key=abc": bad, "api_key=x&%20api_key=abc": bad,
		"api_key=x&api_key[]=abc":  bad,
		"api_key=x&api_key%00=abc": bad, "api_key=x&api[key=abc": bad, "api_key=x&api_key=abc%": bad,
		"api_key=x&api_key":     bad,
		"api_key=x&API_KEY=abc": good, "api_key=x&my_api_key=abc": good, "api_key=x&y=%zz": good, "api_key=x&%zz=y": good,
	} {
		guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
			handler := parsed(t, "rules: [{name: a, key: query:api_key, limits: 1/h}]").Middleware(client)(&ok{})
			require.Equal(t, good, status(handler, "GET /?api_key=abc"))
			r := request("GET /")
			r.URL.RawQuery = query
			assert.Equal(t, want, serve(handler, r).Code, query)
		})
	}
}

// TestMiddleware_Authorization_CountsCredentials: the scheme has no case (RFC 9110, 11.1).
func TestMiddleware_Authorization_CountsCredentials(t *testing.T) {
	h := func(value string) []string { return []string{"Authorization", value} }
	decisions(t, map[string]decisionTest{
		"a hashed key": {"rules: [{name: a, key: hashed_header:Authorization, limits: 1/h, " +
			"overrides: [{key: Bearer gone, ban: true}, {key: Bearer gold, unlimited: true}]}]",
			[]call{
				{"GET /", h("Bearer x"), good}, {"GET /", h("bearer x"), many}, {"GET /", h("BEARER  x"), many},
				{"GET /", h("Bearer\tx"), many}, {"GET /", h("Bearer X"), good}, {"GET /", h("Token x"), good},
				{"GET /", h("bEARER   gone"), no}, {"GET /", h("bearer gold"), good}, {"GET /", h("Bearer gold"), good},
				{"GET /", h("Bearer  gold"), good}, {"GET /", h("Bearer  gold"), many}, // not the exact one
				{"GET /", h("Basic YTo="), good}, {"GET /", h("basic YTp="), many}, {"GET /", h("Basic Y-To="), bad},
			}},
		"a match": {"rules: [{name: a, match: {headers: {Authorization: Bearer x}}, ban: true}, {name: b, key: all, limits: 9/h}]",
			[]call{{"GET /", h("bearer  x"), no}, {"GET /", h("Bearer X"), good}}},
	})
}
