package rules

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
)

// Bans hold.
func TestMiddleware_RedisDown_FollowsTheModeOfEachRule(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t, `
deadline: 50ms
defaults: {key: all}
rules:
  - {name: open, match: /open, limits: 1/h, on_failure: open}
  - {name: closed, match: /closed, limits: 1/h}
  - {name: local, match: /local, limits: 10/h, on_failure: {local: 0.1}}
  - {name: ban, match: /ban, ban: true, on_failure: open}
  - {name: keys, match: /keys, key: "header:K", limits: 1/h, on_failure: open, overrides: [{key: x, ban: true}]}`)
		handler := set.Middleware(client)(&ok{})
		f.Redis.SetError("LOADING")
		for range 2 {
			assert.Equal(t, good, status(handler, "GET /open"))
			assert.Equal(t, down, status(handler, "GET /closed"))
			assert.Equal(t, no, status(handler, "GET /ban"))
			assert.Equal(t, no, status(handler, "GET /keys", "K", "x"))
			assert.Equal(t, good, status(handler, "GET /keys", "K", "y"))
		}
		assert.Equal(t, good, status(handler, "GET /local"))
		assert.Equal(t, many, status(handler, "GET /local"))
	})
}

// Also if requests cost nothing.
func TestMiddleware_Ban_DoesNotAskRedis(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		free := httplimit.Cost(func(*http.Request) int64 { return 0 })
		handler := parsed(t, "match: all\nrules: [{name: wide, key: ip, limits: 1/h}, {name: a, match: /ban, ban: true}]").
			Middleware(client, free)(&ok{})
		assert.Equal(t, good, status(handler, "GET /"))
		assert.Equal(t, good, status(handler, "GET /"))
		sent := f.Sent.Load()
		w := serve(handler, request("GET /ban"))
		assert.Equal(t, no, w.Code)
		assert.Equal(t, sent, f.Sent.Load())
		assert.Equal(t, http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}}, w.Header())
		assert.JSONEq(t, `{"type": "about:blank", "title": "Forbidden", "status": 403}`, w.Body.String())
	})
}

func TestMatched_Handler_GetsTheNamesOfItsRules(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		var reported []string
		report := httplimit.Report(func(r *http.Request, o limit.Outcome) {
			reported = append(reported, o.Limiter+" "+o.Result.String()+" "+strings.Join(Matched(r.Context()), ","))
		})
		var seen []string
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = Matched(r.Context()) })
		handler := parsed(t, `
domain: shop
match: all
rules:
  - {name: one, key: ip, limits: 9/h}
  - {name: two, key: all, limits: 9/h}
  - {name: three, key: all, limits: 9/h, shadow: true}`).Middleware(client, report)(next)
		serve(handler, request("GET /"))
		assert.Equal(t, []string{"one", "two", "three"}, seen)
		assert.Equal(t,
			[]string{"shop:one:192.0.2.1 + shop:two acquired one,two,three", "shop:three acquired one,two,three"}, reported)
		assert.Nil(t, Matched(t.Context()))
		assert.NoError(t, Settle(t.Context(), 0), "of no request")
	})
}

// TestMiddleware_HashedKeys_AreNotInRedis: cookies and queries have secrets too. Overrides name a header as clients send it.
func TestMiddleware_HashedKeys_AreNotInRedis(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var names []string
		report := httplimit.Report(func(_ *http.Request, o limit.Outcome) { names = append(names, o.Limiter) })
		handler := parsed(t, `
rules:
  - {name: b, match: /b, key: [cookie:sid, query:key, ip], limits: 1/h}
  - name: a
    key: [hashed_header:X-Api-Key, method]
    limits: 1/h
    overrides: [{key: [gone-4711, GET], ban: true}]`).Middleware(client, report)(&ok{})
		assert.Equal(t, good, status(handler, "GET /", "X-Api-Key", "secret-4711"))
		assert.Equal(t, many, status(handler, "GET /", "X-Api-Key", "secret-4711 "))
		assert.Equal(t, good, status(handler, "GET /", "X-Api-Key", "secret-4712"))
		assert.Equal(t, no, status(handler, "GET /", "X-Api-Key", "gone-4711"))
		assert.Equal(t, bad, status(handler, "GET /"))
		assert.Equal(t, good, status(handler, "GET /b?key=secret", "Cookie", "sid=secret"))
		assert.NotRegexp(t, "secret|gone|471[12]", f.Redis.Dump()+strings.Join(names, " "))
		assert.Contains(t, f.Redis.Dump(), "a:"+identity.Hash("secret-4711")+"|GET")
		assert.Contains(t, f.Redis.Dump(), "b:"+identity.Hash("secret")+"|"+identity.Hash("secret")+"|192.0.2.1")
	})
}

// TestMiddleware_DebugLog_HasTheRules of each request, also of one that no rule matches.
func TestMiddleware_DebugLog_HasTheRules(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	handler := parsed(t, "match: all\nrules: [{name: a, match: /a, ban: true}, {name: b, match: /a, ban: true}]").
		Middleware(offline)(&ok{})
	status(handler, "GET /a?secret")
	status(handler, "GET /b")
	lines := strings.Split(log.String(), "\n")
	require.Len(t, lines, 3)
	assert.Contains(t, lines[0], `msg="rules: request" method=GET hosts=[example.com] path=/a rules="[b a]"`)
	assert.Contains(t, lines[1], `method=GET hosts=[example.com] path=/b rules=[]`)
}

func TestMiddleware_NoClient_Panics(t *testing.T) {
	assert.Panics(t, func() { new(Set).Middleware(nil) })
}

// Programs that limit HTTP alone do not link grpc-go, which package grpcrules imports.
func TestImports_OfRules_HaveNoGRPC(t *testing.T) {
	imports, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	assert.Contains(t, string(imports), "github.com/rratelimiter/rratelimiter/httplimit\n")
	assert.NotContains(t, string(imports), "google.golang.org/grpc")
	assert.NotContains(t, string(imports), "google.golang.org/protobuf")
	assert.Contains(t, string(imports), "time/tzdata\n", "a file names time zones, which images lack")
}

// odd returns a request as a client chose it, nil for one that net/http refuses.
func odd(c guardtest.Choice) *http.Request {
	target, err := url.ParseRequestURI(c.Path)
	if err != nil {
		return nil
	}
	r := &http.Request{Method: c.Method, Host: c.Host, URL: target, RemoteAddr: c.Peer, Header: make(http.Header)}
	for _, h := range c.Headers {
		r.Header.Add(h[0], h[1])
	}
	return r
}

func TestMiddleware_OddRequests_GetNoMoreThanPlainOnes(t *testing.T) {
	guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByClient, guardtest.ByRoute},
		func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
			handler := parsed(t, rulestest.Contract(by)).Middleware(client)(granted)
			return func(c guardtest.Choice) bool {
				r := odd(c)
				return r != nil && serve(handler, r).Code == good
			}
		})
}

// TestForwardAuth_OddRequests_GetNoMoreThanPlainOnes, with the host in a header or in the URI.
func TestForwardAuth_OddRequests_GetNoMoreThanPlainOnes(t *testing.T) {
	for name, describe := range map[string]func(h http.Header, c guardtest.Choice){
		"headers": func(h http.Header, c guardtest.Choice) {
			h["X-Forwarded-Host"], h["X-Forwarded-Uri"] = []string{c.Host}, []string{c.Path}
		},
		"an absolute URI": func(h http.Header, c guardtest.Choice) {
			h["X-Forwarded-Uri"] = []string{"https://" + c.Host + c.Path}
		},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByClient, guardtest.ByRoute},
				func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
					handler := parsed(t, rulestest.Contract(by)).ForwardAuth(client)
					return func(c guardtest.Choice) bool {
						r := request("GET /auth")
						r.RemoteAddr = "10.0.0.1:9"
						for _, h := range c.Headers {
							r.Header.Add(h[0], h[1])
						}
						r.Header["X-Forwarded-Method"] = []string{c.Method}
						r.Header.Add("X-Forwarded-For", netip.MustParseAddrPort(c.Peer).Addr().String())
						describe(r.Header, c)
						return serve(handler, r).Code == good
					}
				})
		})
	}
}

// TestMiddleware_InFlightInShadow_PlaceReturns as that of a rule that denies.
func TestMiddleware_InFlightInShadow_PlaceReturns(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(t, one("key: all, shadow: true, limits: {in_flight: 3, lease: 1m}")).Middleware(client)(&ok{})
		assert.Equal(t, good, status(handler, "GET /"))
		synctest.Wait()
		each, err := limit.New(client, "a", limit.InFlight{Permits: 3, Lease: time.Minute}).Peek(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, each[0].Remaining)
	})
}
