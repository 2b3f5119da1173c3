package gate

import (
	"errors"
	"net/http"
	"testing"

	"github.com/rratelimiter/rratelimiter"
	"github.com/stretchr/testify/assert"
)

// Equal errors have equal texts.
func TestNotSent_Text_SaysPausedAndRounds(t *testing.T) {
	for want, d := range map[string]rratelimiter.Decision{
		`not sent: limiter "name": paused for 2s`:                             {RetryAfter: 1000991158},
		`not sent: limiter "name": not enough permits (1) in time, but in 1s`: {Limit: 5, RetryAfter: 1},
		`not sent: limiter "name": not enough permits (1) in time`:            {},
	} {
		var refused Visit[*http.Request]
		refused.Limiter, refused.Cost, refused.Decision = "name", 1, d
		assert.EqualError(t, refused.NotSent(errors.New("not sent")), want)
	}
}

// A gRPC server may run as a handler of net/http, behind a middleware of httplimit.
func TestOutcomeOf_OtherProtocol_IsNone(t *testing.T) {
	v := &Visit[*http.Request]{Context: t.Context()}
	_, ofHTTP := OutcomeOf[*http.Request](v)
	assert.True(t, ofHTTP)
	_, ofGRPC := OutcomeOf[Call[int]](v)
	assert.False(t, ofGRPC)
}
