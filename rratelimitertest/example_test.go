package rratelimitertest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rratelimitertest"
)

// newHandler is a program under test. It limits each address to one order a minute.
func newHandler(client *rratelimiter.Client) http.Handler {
	perAddress := httplimit.Each(client, "orders", httplimit.ByIP(),
		limit.FixedWindow{Permits: 1, Interval: time.Minute})
	order := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }
	return httplimit.Middleware(perAddress, httplimit.OnFailure(limit.Closed))(http.HandlerFunc(order))
}

func post(handler http.Handler) int {
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(http.MethodPost, "/orders", nil))
	return response.Code
}

// The example of the package documentation.
func TestOrders_SecondInAMinute_IsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		handler := newHandler(env.Client) // limits each address to one order a minute
		assert.Equal(t, http.StatusCreated, post(handler))
		assert.Equal(t, http.StatusTooManyRequests, post(handler))
		time.Sleep(time.Minute)
		assert.Equal(t, http.StatusCreated, post(handler))
	})
}

// An outage: the handler fails closed, and recovers.
func TestOrders_RedisDown_AreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		handler := newHandler(env.Client)
		env.Redis.Fail(errors.New("connection refused"))
		assert.Equal(t, http.StatusServiceUnavailable, post(handler))
		env.Redis.Recover()
		time.Sleep(time.Second) // the middleware asks Redis again
		assert.Equal(t, http.StatusCreated, post(handler))
	})
}

// A caller that waits: the time serves it.
func TestReport_QuotaUsed_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		quota := env.Client.Limiter("paid-api",
			rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1, Interval: time.Hour}))
		require.NoError(t, quota.Acquire(t.Context(), 1))

		served := make(chan error)
		go func() { served <- quota.Acquire(t.Context(), 1) }()
		time.Sleep(time.Hour)
		require.NoError(t, <-served)
	})
}
