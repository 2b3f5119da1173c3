package gate

import (
	"errors"
	"net/http"
	"testing"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/stretchr/testify/assert"
)

// Equal errors have equal texts.
func TestNotSent_Text_SaysPausedAndRounds(t *testing.T) {
	for want, d := range map[string]rratelimiter.Decision{
		`not sent: limiter "name": paused for 2s`:                             {RetryAfter: 1000991158},
		`not sent: limiter "name": not enough permits (1) in time, but in 1s`: {Limit: 5, RetryAfter: 1},
		`not sent: limiter "name": not enough permits (1) in time`:            {},
	} {
		refused := Decided{Answer: outage.Answer{Outcome: limit.Outcome{Limiter: "name", Cost: 1, Decision: d}}}
		assert.EqualError(t, refused.NotSent(errors.New("not sent")), want)
	}
}

// A gRPC server may run as a handler of net/http, behind a middleware of httplimit.
func TestOutcomeOf_OtherProtocol_IsNone(t *testing.T) {
	v := new(Gate[http.Request]).Visit(t.Context(), &Decided{})
	_, ofHTTP := OutcomeOf[http.Request](v)
	assert.True(t, ofHTTP)
	_, ofGRPC := OutcomeOf[string](v)
	assert.False(t, ofGRPC)
}
