package gate

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Equal errors have equal texts.
func TestNotSent_Text_SaysPausedAndRounds(t *testing.T) {
	for want, d := range map[string]rratelimiter.Decision{
		`not sent: limiter "name": paused for 2s`:                             {RetryAfter: 1000991158},
		`not sent: limiter "name": not enough permits (1) in time, but in 1s`: {Limit: 5, RetryAfter: 1},
		`not sent: limiter "name": not enough permits (1) in time`:            {},
	} {
		var refused Visit[*http.Request]
		refused.Answer.Outcome = limit.Outcome{Limiter: "name", Cost: 1, Decision: d}
		assert.EqualError(t, refused.NotSent(errors.New("not sent")), want)
	}
}

// A gRPC server may run as a handler of net/http, behind a middleware of httplimit.
func TestOutcomeOf_OtherProtocol_IsNone(t *testing.T) {
	v := &Visit[*http.Request]{Request: httptest.NewRequest(http.MethodGet, "/", nil), gate: new(Gate[*http.Request])}
	_, ofHTTP := OutcomeOf[*http.Request](v.Context())
	assert.True(t, ofHTTP)
	_, ofGRPC := OutcomeOf[Call[int]](v.Context())
	assert.False(t, ofGRPC)
}

// Behind a middleware of rules, one of httplimit may have decided last.
func TestSettleByFile_OtherMiddlewareInside_SettlesThatOfTheFile(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	admitted := func(fromFile bool) *Visit[*http.Request] {
		v := &Visit[*http.Request]{Request: r, gate: new(Gate[*http.Request])}
		v.gate.FromFile = fromFile
		v.Permits, v.Answer.Result = 1, limit.Acquired
		v.finalCost.Store(unsettled)
		r = r.WithContext(v.Context())
		return v
	}
	ofFile, other := admitted(true), admitted(false)
	assert.NoError(t, SettleByFile(r.Context(), "rules", 1))
	assert.Equal(t, []int64{1, unsettled}, []int64{ofFile.finalCost.Load(), other.finalCost.Load()})
	assert.NoError(t, SettleIn[*http.Request](r.Context(), "httplimit", 1))
	assert.Equal(t, int64(1), other.finalCost.Load())
}
