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
