package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Numbers have 15 digits at most. examples/routers reads the fields with a parser.
func TestRateLimit_OddNamesAndNumbers_AreStructuredFields(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		odd := httplimit.Named(`a\b"c`, limit.FixedWindow{Permits: 1 << 53, Interval: time.Minute})
		h := serve(httplimit.Middleware(perIP(client, odd))(new(ok)), request()).Header()
		assert.Equal(b, []string{`"a\\b\"c";q=999999999999999;w=60`}, h["Ratelimit-Policy"])
		assert.Equal(b, []string{`"a\\b\"c";r=999999999999999;t=60`}, h["Ratelimit"])
	})
}

func TestHeaders_Times_AreRoundedUp(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		choose := perIP(client, limit.FixedWindow{Permits: 1, Interval: 10 * time.Second})
		redistest.Pass(300 * time.Millisecond)
		begin := time.Now().Truncate(time.Second)
		assert.Equal(b, 200, serve(httplimit.Middleware(choose)(new(ok)), request()).Code)
		redistest.Pass(time.Millisecond) // the window ends 9,999 ms later
		h := serve(httplimit.Middleware(choose, httplimit.Headers(httplimit.XRateLimit))(new(ok)), request()).Header()
		assert.Equal(b, "10", h.Get("Retry-After"))
		assert.Equal(b, begin.Add(11*time.Second).Unix(), unixOf(b, h.Get("X-RateLimit-Reset")))
		h = serve(httplimit.Middleware(choose, httplimit.Headers(httplimit.ThreeHeaders))(new(ok)), request()).Header()
		assert.Equal(b, "10", h.Get("RateLimit-Reset"))
	})
}

// In a denial, Reset is the time of Retry-After. RateLimit describes the limit, whose time is exact.
func TestSpread_HeaderStyles_DelayResetButNotWindow(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		get := func(style httplimit.HeaderStyle) http.Header {
			return serve(httplimit.Middleware(perIP(client, hour(1)), httplimit.Headers(style),
				httplimit.Spread(time.Minute), httplimit.WithRandom(func(n int64) int64 { return n / 2 }),
			)(new(ok)), request()).Header()
		}
		h := get(httplimit.ThreeHeaders)
		assert.Equal(b, "3600", h.Get("RateLimit-Reset"), "of a grant")
		assert.Empty(b, h.Get("Retry-After"))
		h = get(httplimit.ThreeHeaders)
		assert.Equal(b, "3630", h.Get("RateLimit-Reset"))
		assert.Equal(b, "3630", h.Get("Retry-After"))
		h = get(httplimit.XRateLimit)
		assert.Equal(b, time.Now().Add(3630*time.Second).Unix(), unixOf(b, h.Get("X-RateLimit-Reset")))
		h = get(httplimit.Draft11)
		assert.Equal(b, []string{`"hour";r=0;t=3600`}, h["Ratelimit"])
		assert.Equal(b, "3630", h.Get("Retry-After"))
	})
}

// The t of a policy with permits left is at most that of the policy that denies.
func TestSpread_SeveralPolicies_WindowsStayExact(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		choose := perIP(client, limit.FixedWindow{Permits: 1, Interval: 10 * time.Second}, hour(5))
		assert.Equal(b, 200, serve(httplimit.Middleware(choose)(new(ok)), request()).Code)
		for spread, after := range map[time.Duration]string{0: "10", time.Minute: "40"} {
			h := serve(httplimit.Middleware(choose, httplimit.Spread(spread),
				httplimit.WithRandom(func(n int64) int64 { return n / 2 }))(new(ok)), request()).Header()
			assert.Equal(b, []string{`"10s";r=0;t=10, "hour";r=4;t=10`}, h["Ratelimit"], "spread %v", spread)
			assert.Equal(b, after, h.Get("Retry-After"))
		}
	})
}

func unixOf(b *redistest.Fixture, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	assert.NoError(b, err)
	return n
}

func TestHeaders_LocalShare_ShowTheShare(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		bucket := limit.TokenBucket{Capacity: 40, Refill: 20, Interval: time.Minute}
		handler := httplimit.Middleware(perIP(client, hour(10), bucket), httplimit.OnFailure(httplimit.Local(0.1)))(new(ok))
		b.Latency.Store(int64(time.Minute))
		w := serve(handler, request())
		assert.Equal(b, []string{`"hour";q=1;w=3600, "bucket";q=4;w=120`}, w.Header()["Ratelimit-Policy"])
		assert.Equal(b, []string{`"hour";r=0;t=3600, "bucket";r=3;t=30`}, w.Header()["Ratelimit"])
		assert.Contains(b, serve(handler, request()).Body.String(), `"violated-policies":["hour"]`)
	})
}

func TestRateLimit_NumbersUnknown_LeavesThemOut(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		cost := int64(0)
		handler := httplimit.Middleware(perIP(client, hour(10)), httplimit.Wait(2*time.Hour),
			httplimit.Cost(func(*http.Request) int64 { return cost }))(new(ok))
		for _, c := range []struct {
			cost int64
			want []string
		}{
			{0, nil}, {7, []string{`"hour";r=3;t=3600`}}, {11, nil},
			{4, []string{`"hour";r=0`}}, // what others have taken during its wait is unknown
		} {
			cost = c.cost
			assert.Equal(b, c.want, serve(handler, request()).Header()["Ratelimit"], "cost %d", c.cost)
		}
	})
}

// custom is a limiter of a user that reports no numbers.
type custom []rratelimiter.Decision

func (c custom) Take(context.Context, int64) (d rratelimiter.Decision, err error) { return d, nil }

func (c custom) TakeEach(context.Context, int64) ([]rratelimiter.Decision, error) { return c, nil }

func TestMiddleware_LimiterWithoutNumbers_ReportsNoQuota(t *testing.T) {
	describe := httplimit.Describe(limit.FixedWindow{Permits: 10, Interval: time.Second},
		limit.FixedWindow{Permits: 100, Interval: time.Minute})
	for name, each := range map[string]custom{"denied": {{}, {Allowed: true}}, "no policies": {}} {
		w := httptest.NewRecorder()
		httplimit.Middleware(httplimit.All(describe(each)))(http.NotFoundHandler()).ServeHTTP(w,
			httptest.NewRequest(http.MethodGet, "/", nil))
		assert.NotContains(t, w.Header(), "Ratelimit-Policy", name)
	}
}
