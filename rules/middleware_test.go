package rules

import (
	"net/http"
	"strconv"
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
)

// Bans hold.
func TestMiddleware_RedisDown_FollowsTheModeOfEachRule(t *testing.T) {
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

// Also if requests cost nothing.
func TestMiddleware_Ban_DoesNotAskRedis(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		free := httplimit.Cost(func(*http.Request) int64 { return 0 })
		handler := parsed(b, "match: all\nrules: [{name: wide, key: ip, limits: 1/h}, {name: a, match: /ban, ban: true}]").
			Middleware(client, free)(&ok{})
		assert.Equal(b, good, status(handler, "GET /"))
		assert.Equal(b, good, status(handler, "GET /"))
		sent := b.Sent.Load()
		w := serve(handler, request("GET /ban"))
		assert.Equal(b, many, w.Code)
		assert.Equal(b, sent, b.Sent.Load())
		assert.Equal(b, `"ban";q=0`, w.Header().Get("Ratelimit-Policy"))
		assert.Empty(b, w.Header().Get("Retry-After"))
		assert.Contains(b, w.Body.String(), `"violated-policies":["ban"]`)
	})
}

func TestMiddleware_Wait_DelaysTheRequest(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := parsed(b,
			"rules: [{name: a, key: ip, limits: {policy: token_bucket, rate: 1/s}, wait: 2s}]").Middleware(client)(&ok{})
		begin := time.Now()
		assert.Equal(b, good, status(handler, "GET /"))
		assert.Equal(b, good, status(handler, "GET /"))
		assert.Equal(b, time.Second, time.Since(begin).Round(time.Millisecond))
	})
}

func TestMatched_Handler_GetsTheNamesOfItsRules(t *testing.T) {
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
		assert.Equal(b,
			[]string{"shop:one:192.0.2.1 + shop:two acquired one,two,three", "shop:three acquired one,two,three"}, reported)
		assert.Nil(b, Matched(b.Context()))
		assert.NoError(b, Settle(b.Context(), 0), "of no request")
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

func TestMiddleware_NoClient_Panics(t *testing.T) {
	assert.Panics(t, func() { new(Set).Middleware(nil) })
}

// The exact time to retry is an hour.
func TestSpread_Denials_RetryAtDifferentTimes(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b, one("key: all, limits: {policy: fixed_window, rate: 1/h}, spread: 1h"))
		handler := set.Middleware(client)(&ok{})
		assert.Equal(b, good, status(handler, "GET /"))
		times := make(map[time.Duration]bool)
		for range 50 {
			seconds, err := strconv.Atoi(serve(handler, request("GET /")).Header().Get("Retry-After"))
			require.NoError(b, err)
			times[time.Duration(seconds)*time.Second] = true
		}
		for at := range times {
			assert.GreaterOrEqual(b, at, time.Hour)
			assert.LessOrEqual(b, at, 2*time.Hour)
		}
		assert.Greater(b, len(times), 40, "of 50, some of which may be equal in whole seconds")
	})
}
