package rules

import (
	"bytes"
	"fmt"
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
		each := redistest.Peek(t, limit.New(client, "a", limit.InFlight{Permits: 3, Lease: time.Minute}))
		assert.EqualValues(t, 3, each[0].Remaining)
	})
}

// The refusal has no numbers, so the response shows the rule with the fewest permits left: a.
func TestMiddleware_RefusalWithoutNumbers_ShowsTheFewestPermits(t *testing.T) {
	for file, want := range map[string]int{
		"key: header:K, limits: 9/h":                              http.StatusBadRequest,
		"key: ip, limits: 9/h":                                    http.StatusServiceUnavailable,
		"key: all, limits: 1/h, cost: 2, headers: x_rate_limit":   http.StatusTooManyRequests,
		"key: all, limits: 1/h, cost: 2, headers: none, wait: 1s": http.StatusTooManyRequests,
	} {
		guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
			set := parsed(t, "match: all\ndefaults: {headers: three_headers}\nrules:\n"+
				"- {name: a, key: all, limits: 2/h, cost: 2}\n- {name: b, key: all, limits: 9/h}\n- {name: c, "+file+"}\n")
			r := request("GET /")
			r.RemoteAddr = "@"
			w := serve(set.Middleware(client)(&ok{}), r)
			assert.Equal(t, want, w.Code, file)
			assert.Equal(t, "0", w.Header().Get("RateLimit-Remaining"), file)
		})
	}
}

// TestMiddleware_EqualNames_AreNumbered, also of rules that decide one after another.
func TestMiddleware_EqualNames_AreNumbered(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(t, "match: all\nrules: [{name: a, key: all, limits: {rate: 5/h, name: q}}, "+
			"{name: b, key: ip, cost: 2, limits: {rate: 9/m, name: q}}]").Middleware(client)(&ok{})
		assert.Equal(t, []string{`"q-2";q=5;w=3600`, `"q";q=9;w=60`},
			serve(handler, request("GET /")).Header()["Ratelimit-Policy"])
	})
}

func TestMiddleware_RedisHangs_RefusesBeforeTheRelease(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t, "match: all\nrules:\n- {name: a, key: all, limits: 9/h}\n- {name: b, key: all, limits: 1/h, cost: 2}\n")
		var denied time.Time
		h := set.Middleware(client, httplimit.Report(func(_ *http.Request, o limit.Outcome) {
			if o.Result == limit.Rejected {
				denied = time.Now()
				f.Latency.Store(int64(time.Minute))
			}
		}), httplimit.Refuse(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			assert.Zero(t, time.Since(denied))
			w.WriteHeader(http.StatusTooManyRequests)
		})))(&ok{})
		assert.Equal(t, http.StatusTooManyRequests, status(h, "GET /"))
	})
}

// TestMiddleware_CallbackPanics_PlacesOfOtherRulesReturn, after the handler, after a denial, and before both.
func TestMiddleware_CallbackPanics_PlacesOfOtherRulesReturn(t *testing.T) {
	for name, last := range map[string]string{
		"a settlement fails": "",
		"a release fails":    "- {name: c, match: /x, key: all, limits: 1/h, cost: 3}\n",
		"the report":         "- {name: d, match: /x, key: all, limits: 9/h}\n",
	} {
		guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			set := parsed(t, "match: all\nrules:\n- {name: a, key: all, limits: {in_flight: 1, lease: 5m}}\n"+
				"- {name: b, match: /x, key: all, limits: {rate: 9/h, policy: fixed_window}, cost: 2}\n"+last)
			corrupt := func() {
				for _, key := range f.Redis.Keys() {
					if strings.HasPrefix(key, "{b") {
						f.Redis.Del(key)
						assert.NoError(t, redistest.Err(f.Redis.Lpush(key, "other data")))
					}
				}
			}
			h := set.Middleware(client, httplimit.OnSettleError(func(_ *http.Request, err error) { panic(err) }),
				httplimit.Report(func(_ *http.Request, o limit.Outcome) {
					if o.Result == limit.Rejected {
						corrupt()
					}
					if strings.HasPrefix(o.Limiter, "d") {
						panic(name)
					}
				}))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/x" {
					assert.NoError(t, Settle(r.Context(), 0))
					corrupt()
				}
			}))
			assert.Panics(t, func() { status(h, "GET /x") }, name)
			time.Sleep(10 * time.Second)
			assert.Equal(t, http.StatusOK, status(h, "GET /y"), name)
		})
	}
}

// TestMiddleware_ReloadInOutage_ShareStays: permits that were granted without Redis still count
// after a reload, whatever it changes.
func TestMiddleware_ReloadInOutage_ShareStays(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		rule := func(limits, fields string) string {
			return one("key: all, policy: fixed_window, limits: [" + limits + "], on_failure: {local: 0.5}" + fields)
		}
		set := parsed(t, rule("10/h", ""))
		handler := set.Middleware(client)(&ok{})
		f.Redis.SetError("LOADING")
		granted := 0
		take := func() {
			for status(handler, "GET /") == good {
				granted++
			}
		}
		for _, fields := range []string{"", ", wait: 1ms", ", cost: 1", ""} {
			for _, file := range []string{"", "deadline: 1s\n", "max_waiting: 7\n", "on_invalid: on_failure\n"} {
				reload(f, set, file+rule("10/h", fields))
				take()
			}
		}
		assert.Equal(t, 3, granted, "of 5, which is half of the limit, 3 can be had at once")
		for _, limits := range []string{"10/h, 20/m", "20/m, 10/h", "10/h"} { // another limit beside it
			reload(f, set, rule(limits, ""))
			take()
		}
		assert.Equal(t, 3, granted)
		time.Sleep(time.Hour)
		take()
		assert.Equal(t, 6, granted)
	})
}

// TestMiddleware_ReloadInOutage_EndIsReported: each outage that is reported ends, whenever a reload
// comes, at the latest with a request that needs Redis.
func TestMiddleware_ReloadInOutage_EndIsReported(t *testing.T) {
	one := "rules: [{name: a, key: all, limits: 9/h, on_failure: open"
	for name, c := range map[string]struct {
		before, after string
	}{
		"another mode":     {one + "}]", strings.Replace(one, "open", "{local: 0.5}", 1) + "}]"},
		"another deadline": {one + "}]", "deadline: 1s\n" + one + "}]"},
		"no rule":          {one + "}]", "rules: []"},
		"a ban":            {one + "}]", "rules: [{name: a, ban: true}]"},
	} {
		for _, length := range []time.Duration{0, 10 * time.Minute} {
			t.Run(fmt.Sprint(name, length), func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
					var heard []bool // what OnRedisChange reports
					set := parsed(t, c.before)
					handler := set.Middleware(client, httplimit.OnRedisChange(func(_ string, up bool, _ error) {
						heard = append(heard, up)
					}))(&ok{})
					require.Equal(t, good, status(handler, "GET /"))
					time.Sleep(2 * time.Second)
					f.Redis.SetError("LOADING")
					status(handler, "GET /")
					require.Equal(t, []bool{false}, heard)
					reload(f, set, c.after)
					status(handler, "GET /")
					time.Sleep(length)
					f.Redis.SetError("")
					time.Sleep(2 * time.Second)
					status(handler, "GET /")
					time.Sleep(2 * time.Second)
					reload(f, set, c.before)
					status(handler, "GET /")
					time.Sleep(2 * time.Second)
					synctest.Wait()
					assert.Equal(t, []bool{false, true}, heard)
				})
			})
		}
	}
}
