package limit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestOutcome_Text_IsReadable(t *testing.T) {
	for want, o := range map[string]limit.Outcome{
		"result=Result(0)": {},
		"result=acquired limiter=web:192.0.2.1 cost=2 limit=10 remaining=8 reset_after=1m0s": {
			Result: limit.Acquired, Limiter: "web:192.0.2.1", Cost: 2,
			Decision: rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 8, ResetAfter: time.Minute},
		},
		"result=rejected shadow=true local=true limiter=web cost=1 limit=10 remaining=0 retry_after=3s reset_after=1m0s": {
			Result: limit.Rejected, Shadow: true, Local: true, Limiter: "web", Cost: 1,
			Decision: rratelimiter.Decision{Limit: 10, RetryAfter: 3 * time.Second, ResetAfter: time.Minute},
		},
		"result=acquired limiter=outgoing cost=1": { // the numbers are unknown
			Result: limit.Acquired, Limiter: "outgoing", Cost: 1, Decision: rratelimiter.Decision{Allowed: true},
		},
		`result=failed_closed limiter="a \"name\"" cost=1 error="no route"`: {
			Result: limit.FailedClosed, Limiter: `a "name"`, Cost: 1, Err: errors.New("no route"),
		},
		`result=invalid error="no key"`: {Result: limit.Invalid, Err: errors.New("no key")},
	} {
		assert.Equal(t, want, o.String())
		assert.Equal(t, want, fmt.Sprintf("%+v", o))
	}
}

// A JSON handler writes a value that implements no LogValuer as its fields, and a Result as a number.
func TestOutcome_Log_HasAttributes(t *testing.T) {
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("limited", "outcome", limit.Outcome{
		Result: limit.Rejected, Limiter: "web", Cost: 1, Err: errors.New("a cause"),
		Decision: rratelimiter.Decision{Limit: 10, RetryAfter: time.Second},
	}, "result", limit.Invalid)
	var entry map[string]any
	require.NoError(t, json.Unmarshal([]byte(log.String()), &entry))
	assert.Equal(t, "invalid", entry["result"])
	assert.Equal(t, map[string]any{
		"result": "rejected", "limiter": "web", "cost": 1.0, "limit": 10.0, "remaining": 0.0, "retry_after": 1e9,
		"reset_after": 0.0, "error": "a cause",
	}, entry["outcome"])
}

func TestLocal_ShareOutOfRange_Panics(t *testing.T) {
	for _, share := range []float64{0, -1, 1.5, math.NaN()} {
		assert.PanicsWithValue(t, fmt.Sprintf("limit: Local: the share is out of range: %v: pass one above 0 and at most 1", share),
			func() { limit.Local(share) })
	}
	assert.NotPanics(t, func() { limit.Local(1) })
}
