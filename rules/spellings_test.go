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

// TestMiddleware_RawPath_IsRead: net/url drops the escapes of a path that has a character which
// should have been escaped.
func TestMiddleware_RawPath_IsRead(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t,
			"rules: [{name: b, match: /login, key: all, limits: 1/h}, {name: a, key: all, limits: 2/h, skip: {paths: [/static/]}}]")
		handler := set.Middleware(client)(&ok{})
		for _, path := range []string{"/static%2F#", "/static%2f\xc3\xa9", `/static%2fx\`, "/static/..%2Flogin#"} {
			assert.Equal(t, bad, status(handler, "GET "+path), path)
		}
		assert.Equal(t, good, status(handler, "GET /static/\xc3\xa9"))
		r := request("GET /x%20y")
		r.URL.Path = "/static/y" // by a program that does not change RawPath, which some routers read
		r.URL.RawPath = "/x%21y"
		assert.Equal(t, good, serve(handler, r).Code)
		assert.Equal(t, good, serve(handler, r).Code)
		assert.Equal(t, many, serve(handler, r).Code)
	})
}

// TestMiddleware_UnusedPath_Passes: if no rule depends on the path, or only rules in shadow do, no
// path is refused.
func TestMiddleware_UnusedPath_Passes(t *testing.T) {
	calls := []call{{"GET /repos/a%2Fb", nil, good}, {"GET /x/../y", nil, good}}
	decisions(t, map[string]decisionTest{
		"all paths":           {"rules: [{name: a, key: ip, limits: 99/h}]", calls},
		"all paths of a host": {"rules: [{name: a, match: api.example.com/, key: ip, limits: 99/h}]", calls},
		"a rule in shadow":    {"rules: [{name: a, match: /a, ban: true, shadow: true}, {name: b, key: ip, limits: 9/h}]", calls},
	})
}

// TestMiddleware_SpellingsOfARequest_MeetTheSameRules: each interpretation of a path by a router
// has its rules and keys, and all of them decide. A skip applies to all interpretations or to none.
// TestMiddleware_OddRequests_GetNoMoreThanPlainOnes has spellings of hosts and methods.
func TestMiddleware_SpellingsOfARequest_MeetTheSameRules(t *testing.T) {
	decisions(t, map[string]decisionTest{
		"a path is read for a skip alone": {`
rules: [{name: a, key: all, limits: 1/h, skip: {paths: [/static/]}}]`,
			[]call{{"GET /static/..%2Flogin", nil, bad}}},
		"both interpretations of an escaped slash decide": {`
escaped_slashes: allow
rules:
  - {name: a, match: "/repos/{name}", key: "path:name", limits: 1/h}
  - {name: b, match: /repos/, key: all, limits: 3/h, skip: {paths: "/repos/{name}"}}`,
			[]call{
				{"GET /repos/a%2Fb", nil, good}, {"GET /repos/a%2fb", nil, many}, {"GET /repos/a%5Cb", nil, good},
				{"GET /repos/a/b", nil, good},
				{"GET /repos/a/b", nil, many}, {"GET /repos/c%2Fd", nil, many}, {"GET /repos/c", nil, good},
				{"GET /x/%2e%2e/y", nil, bad}, {"GET /repos/..%2Fy", nil, bad},
			}},
		"a ban of one interpretation denies": {`
escaped_slashes: allow
rules:
  - {name: a, match: /admin/, ban: true}
  - {name: b, match: "/x%2Fy", ban: true}`,
			[]call{
				{"GET /admin%2Fx", nil, no}, {"GET /admin%5cx", nil, no}, {`GET /admin\x`, nil, no},
				{"GET /x%2fy", nil, no}, {"GET /x/y", nil, good},
				{"GET /x/admin%2Fx", nil, good},
			}},
		"both rules of a path with parameters decide": {`
rules:
  - {name: login, match: /login, key: all, limits: 2/h}
  - {name: rest, match: /, key: all, limits: 3/h}`,
			[]call{{"GET /login;v=1", nil, good}, {"GET /login%3Bv=2", nil, good}, {"GET /login", nil, many},
				{"GET /x", nil, good}, {"GET /x", nil, many}}},
		"both keys of one rule decide": {`
rules:
  - name: tenants
    match: /t/{tenant}
    key: path:tenant
    limits: 1/h
    overrides: [{key: gone, ban: true}, {key: self, unlimited: true}]`,
			[]call{
				{"GET /t/a;x", nil, good}, {"GET /t/a", nil, many}, {"GET /t/a;x", nil, many}, {"GET /t/gone;x", nil, no},
				{"GET /t//gone", nil, no},
				{"GET /t/self;x", nil, good}, {"GET /t/self;x", nil, many},
			}},
		"one rule counts once": {`
rules: [{name: a, key: all, limits: 2/h}]`,
			[]call{{"GET //a;b", nil, good}, {"GET //a;b", nil, good}, {"GET //a;b", nil, many}}},
		"a skip is for all interpretations": {`
rules: [{name: a, key: all, limits: 1/h, skip: {paths: [/static/, /health]}}]`,
			[]call{{"GET /static/x;v=1", nil, good}, {"GET /static/x;v=1", nil, good}, {"GET /health;x", nil, good},
				{"GET //static/x", nil, many}, {"GET /;x/static/y", nil, many}}},
		"GET includes HEAD": {`
rules:
  - {name: m, match: {pattern: /m, methods: [GET]}, key: all, limits: 1/h}
  - {name: k, match: /k, key: method, limits: 1/h}`,
			[]call{
				{"HEAD /m", nil, good}, {"GET /m", nil, many},
				{"HEAD /k", nil, good}, {"GET /k", nil, many}, {"get /k", nil, many}, {"PUT /k", nil, good},
			}},
	})
}

// TestMiddleware_Exceptions_HoldForTheExactRequest: a server may serve another spelling as another
// request, so that what lets more pass holds for the request as the file has it.
func TestMiddleware_Exceptions_HoldForTheExactRequest(t *testing.T) {
	h := func(pairs ...string) []string { return pairs }
	decisions(t, map[string]decisionTest{
		"a skip of a method": {`
defaults: {key: ip, skip: {methods: [OPTIONS, GET]}}
rules: [{name: login, match: /login, limits: 2/h}]`,
			[]call{
				{"OPTIONS /login", nil, good}, {"OPTIONS /login", nil, good}, {"OPTIONS /login", nil, good},
				{"options /login", nil, good}, {"Options /login", nil, good}, {"options /login", nil, many},
				{"GET /login", nil, good}, {"HEAD /login", nil, many},
			}},
		"an override of a method": {`
rules:
  - name: a
    key: method
    limits: 1/h
    overrides:
      - {key: OPTIONS, unlimited: true}
      - {key: PUT, limits: 9/h}
      - {key: DELETE, ban: true}
      - {key: GET, unlimited: true}`,
			[]call{
				{"OPTIONS /", nil, good}, {"OPTIONS /", nil, good}, {"options /", nil, good}, {"options /", nil, many},
				{"PUT /", nil, good}, {"PUT /", nil, good}, {"put /", nil, many}, {"delete /", nil, no},
				{"GET /", nil, good}, {"HEAD /", nil, good}, {"HEAD /", nil, many},
			}},
		"an override of a header": {`
rules:
  - {name: a, key: header:K, limits: 1/h, overrides: [{key: gold, unlimited: true}, {key: gone, ban: true}]}`,
			[]call{
				{"GET /", h("K", "gold"), good}, {"GET /", h("K", " gold"), good}, {"GET /", h("K", "gold\t"), many},
				{"GET /", h("K", "gone "), no},
			}},
		"an override of a ban": {`
rules: [{name: a, key: header:K, ban: true, overrides: [{key: gold, unlimited: true}]}]`,
			[]call{{"GET /", h("K", "gold"), good}, {"GET /", h("K", " gold"), no}}},
		"a rule for a host before others": {`
rules: [{name: a, match: in.example/, key: all, limits: 9/h}, {name: b, key: all, limits: 1/h}]`,
			[]call{
				{"GET http://in.example:80/", nil, good}, {"GET http://in.example/", nil, good},
				{"GET http://IN.example/", nil, good}, {"GET http://in.example./", nil, many},
			}},
		"a rule for a method before others": {`
rules: [{name: a, match: PUT /, key: all, limits: 9/h}, {name: b, key: all, limits: 1/h}]`,
			[]call{{"PUT /", nil, good}, {"PUT /", nil, good}, {"put /", nil, good}, {"Put /", nil, many}}},
		"a rule for a header before others": {`
rules: [{name: a, match: {headers: {X: y}}, key: all, limits: 9/h}, {name: b, key: all, limits: 1/h}]`,
			[]call{
				{"GET /", h("X", "y"), good}, {"GET /", h("X", "y"), good},
				{"GET /", h("X", "y", "X", "z"), good}, {"GET /", h("X", " y"), many},
			}},
		"a rule for any value of a header before others": {`
rules: [{name: a, match: {headers: {X: '*'}}, key: all, limits: 9/h}, {name: b, key: all, limits: 1/h}]`,
			[]call{{"GET /", h("X", "y"), good}, {"GET /", h("X", ""), good}, {"GET /", h("X", " "), many}}},
	})
}
