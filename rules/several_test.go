package rules

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

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
