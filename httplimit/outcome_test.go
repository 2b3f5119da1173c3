package httplimit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestOutcome_Text_IsReadable(t *testing.T) {
	for want, o := range map[string]httplimit.Outcome{
		"result=Result(0)": {},
		"result=acquired limiter=web:192.0.2.1 cost=2 limit=10 remaining=8 reset_after=1m0s": {
			Result: httplimit.Acquired, Limiter: "web:192.0.2.1", Cost: 2,
			Decision: rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 8, ResetAfter: time.Minute},
		},
		"result=rejected shadow=true local=true limiter=web cost=1 limit=10 remaining=0 retry_after=3s reset_after=1m0s": {
			Result: httplimit.Rejected, Shadow: true, Local: true, Limiter: "web", Cost: 1,
			Decision: rratelimiter.Decision{Limit: 10, RetryAfter: 3 * time.Second, ResetAfter: time.Minute},
		},
		"result=acquired limiter=outgoing cost=1": { // the numbers are unknown
			Result: httplimit.Acquired, Limiter: "outgoing", Cost: 1, Decision: rratelimiter.Decision{Allowed: true},
		},
		`result=failed_closed limiter="a \"name\"" cost=1 error="no route"`: {
			Result: httplimit.FailedClosed, Limiter: `a "name"`, Cost: 1, Err: errors.New("no route"),
		},
		`result=invalid error="no key"`: {Result: httplimit.Invalid, Err: errors.New("no key")},
	} {
		assert.Equal(t, want, o.String())
		assert.Equal(t, want, fmt.Sprint(o))
		assert.Equal(t, want, fmt.Sprintf("%+v", o))
	}
}

// A JSON handler writes a value that implements no LogValuer as its fields, and a Result as a number.
func TestOutcome_Log_HasAttributes(t *testing.T) {
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("limited", "outcome", httplimit.Outcome{
		Result: httplimit.Rejected, Limiter: "web", Cost: 1, Err: errors.New("a cause"),
		Decision: rratelimiter.Decision{Limit: 10, RetryAfter: time.Second},
	}, "result", httplimit.Invalid)
	var entry map[string]any
	require.NoError(t, json.Unmarshal([]byte(log.String()), &entry))
	assert.Equal(t, "invalid", entry["result"])
	assert.Equal(t, map[string]any{
		"result": "rejected", "limiter": "web", "cost": 1.0, "limit": 10.0, "remaining": 0.0, "retry_after": 1e9,
		"reset_after": 0.0, "error": "a cause",
	}, entry["outcome"])
}

// A request without its API key is the client's fault, and no failure of Redis.
func ExampleOutcome() {
	perKey := httplimit.Each(connect(), "web", httplimit.ByHeader("X-Api-Key"),
		limit.FixedWindow{Permits: 1, Interval: time.Hour})
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	report := func(r *http.Request, o httplimit.Outcome) { log.Info(r.URL.Path, "limit", o) }
	handler := httplimit.Middleware(perKey, unhurried, httplimit.Report(report))(hello)
	fmt.Println(get(handler, "/hello").Status)
	// Output:
	// level=INFO msg=/hello limit.result=invalid limit.error="httplimit: header X-Api-Key: want one value that is not empty: got 0 values"
	// 400 Bad Request
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
