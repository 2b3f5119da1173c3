package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

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
