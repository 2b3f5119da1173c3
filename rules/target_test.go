package rules

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

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
