package httplimit_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Redis that has become slow, for each mode: what clients get, and that no request waits for more than the deadline.
func TestASlowRedis(t *testing.T) {
	for name, c := range map[string]struct {
		mode httplimit.FailureMode
		want map[int]int // by status
	}{
		"open":    {httplimit.Open, map[int]int{200: 50}},
		"closed":  {httplimit.Closed, map[int]int{503: 50}},
		"a share": {httplimit.Local(0.5), map[int]int{200: 3, 429: 47}}, // 5 of an hour, 3 of them at once
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				var news []string
				handler := httplimit.Middleware(perIP(client, hour(10)), httplimit.OnFailure(c.mode), httplimit.Deadline(50*time.Millisecond),
					httplimit.OnStoreChange(func(up bool, err error) { news = append(news, fmt.Sprint(up, err != nil)) }))(new(ok))
				require.Equal(b, 200, serve(handler, request()).Code)
				redistest.Pass(time.Second)
				b.Latency.Store(int64(time.Second))
				got := make(map[int]int)
				for range 50 {
					begin := time.Now()
					w := serve(handler, request())
					got[w.Code]++
					assert.LessOrEqual(b, time.Since(begin), 50*time.Millisecond)
					assert.NotContains(b, w.Body.String()+fmt.Sprint(w.Header()), "rratelimiter")
					redistest.Pass(10 * time.Millisecond)
				}
				assert.Equal(b, c.want, got)
				assert.Equal(b, []string{"false true"}, news)
				b.Latency.Store(0)
				redistest.Pass(time.Minute)
				assert.Equal(b, 200, serve(handler, request()).Code, "Redis again")
				assert.Equal(b, []string{"false true", "true false"}, news)
			})
		})
	}
}

// What a share refuses looks as any refusal, with the share's numbers.
func TestAShareIsShown(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := httplimit.Middleware(perIP(client, hour(10), limit.TokenBucket{Capacity: 40, Refill: 20, Interval: time.Minute}),
			httplimit.OnFailure(httplimit.Local(0.1)))(new(ok))
		b.Latency.Store(int64(time.Minute))
		w := serve(handler, request())
		assert.Equal(b, 200, w.Code)
		assert.Equal(b, []string{`"hour";q=1;w=3600, "bucket";q=4;w=120`}, w.Header()["Ratelimit-Policy"])
		assert.Equal(b, []string{`"hour";r=0;t=3600, "bucket";r=3;t=30`}, w.Header()["Ratelimit"])
		w = serve(handler, request())
		assert.Equal(b, 429, w.Code)
		assert.Equal(b, "3600", w.Header().Get("Retry-After"))
		assert.Contains(b, w.Body.String(), `"violated-policies":["hour"]`)
	})
}

// A limiter of which policies or name are not known has no share.
func TestNoShare(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		quota := client.Limiter("quota")
		b.Latency.Store(int64(time.Minute))
		handler := httplimit.Middleware(httplimit.All(quota), httplimit.OnFailure(httplimit.Local(1)))(new(ok))
		assert.Equal(b, 503, serve(handler, request()).Code)
		handler = httplimit.Middleware(httplimit.All(quota), httplimit.OnFailure(httplimit.Local(1)), httplimit.Policies(hour(1)))(new(ok))
		assert.Equal(b, 200, serve(handler, request()).Code)
		assert.Equal(b, 429, serve(handler, request()).Code)
		handler = httplimit.Middleware(perIP(client, hour(10)), httplimit.OnFailure(httplimit.Local(0.09)))(new(ok))
		assert.Equal(b, 503, serve(handler, request()).Code, "less than a permit")
		handler = httplimit.Middleware(perIP(client, hour(10)), httplimit.OnFailure(httplimit.Local(0.5)), httplimit.Cost(func(*http.Request) int64 { return 4 }))(new(ok))
		assert.Equal(b, 503, serve(handler, request()).Code, "more than can be had at once")
	})
}

// A share that a handler settles for.
func TestSettlingAShare(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		cost := int64(0)
		handler := httplimit.Middleware(perIP(client, hour(10)), httplimit.OnFailure(httplimit.Local(0.1)))(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { assert.NoError(b, httplimit.Settle(r.Context(), cost)) }))
		b.Latency.Store(int64(time.Minute))
		for range 5 {
			assert.Equal(b, 200, serve(handler, request()).Code)
		}
		cost = 2
		assert.Equal(b, 200, serve(handler, request()).Code)
		assert.Equal(b, "7200", serve(handler, request()).Header().Get("Retry-After"))
	})
}
