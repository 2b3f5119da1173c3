package otellimit

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestMiddleware_Request_CountsByResult(t *testing.T) {
	for _, c := range []struct {
		o      limit.Outcome
		result string
		kind   string // of the error
	}{
		{limit.Outcome{Result: limit.Acquired}, "acquired", ""},
		{limit.Outcome{Result: limit.Acquired, Shadow: true}, "acquired", ""},
		{limit.Outcome{Result: limit.Rejected}, "rejected", ""},
		{limit.Outcome{Result: limit.Rejected, Err: rratelimiter.ErrPermitsExceedRate}, "rejected", ""},
		{limit.Outcome{Result: limit.Rejected, Shadow: true}, "shadowed", ""},
		{limit.Outcome{Result: limit.Canceled, Err: context.Canceled}, "canceled", "canceled"},
		{limit.Outcome{Result: limit.Canceled, Err: context.Canceled, Shadow: true}, "canceled", "canceled"},
		{limit.Outcome{Result: limit.FailedOpen, Err: errSecret}, "failed_open", "_OTHER"},
		{limit.Outcome{Result: limit.FailedClosed, Err: errSecret}, "failed_closed", "_OTHER"},
		{limit.Outcome{Result: limit.FailedClosed, Err: errSecret, Shadow: true}, "failed_open", "_OTHER"},
		{limit.Outcome{Result: limit.Invalid, Err: limit.ErrInvalidRequest}, "invalid", "invalid_request"},
		{limit.Outcome{Result: limit.Invalid, Err: limit.ErrInvalidRequest, Shadow: true}, "shadowed",
			"invalid_request"},
		{limit.Outcome{Result: limit.FailedOpen, Err: fmt.Errorf("a node: %w", outage.ErrDown)}, "failed_open",
			"redis_down"},
	} {
		b := setUp(t)
		b.Middleware("d").Request(context.Background(), c.o)
		want := "rratelimiter.middleware=d,rratelimiter.result=" + c.result
		if c.kind != "" {
			want = "error.type=" + c.kind + "," + want
		}
		assert.Equal(t, map[string]int64{want: 1}, b.sums("middleware.requests"), "%+v", c.o)
	}
}

// A decision by the local share is not one of Redis.
func TestMiddleware_LocalShare_HasItsSource(t *testing.T) {
	b := setUp(t)
	middleware := b.Middleware("d")
	for _, local := range []bool{false, true} {
		middleware.Request(context.Background(), limit.Outcome{Result: limit.Acquired, Local: local})
	}
	const acquired = "rratelimiter.middleware=d,rratelimiter.result=acquired"
	want := map[string]int64{acquired: 1, acquired + ",rratelimiter.source=share": 1}
	assert.Equal(t, want, b.sums("middleware.requests"))
}

// A graph has a line before Redis fails.
func TestMiddleware_RedisChange_CountsEachMiddleware(t *testing.T) {
	b := setUp(t)
	middleware := b.Middleware("http")
	assert.Contains(t, b.metrics(), "fallback.active")
	active := func() int64 { return b.sums("fallback.active")["rratelimiter.middleware=http"] }
	assert.Zero(t, active())
	for _, c := range []struct {
		up   bool
		want int64
	}{{false, 1}, {false, 2}, {true, 1}, {true, 0}} {
		middleware.RedisChange("", c.up, nil)
		assert.Equal(t, c.want, active())
	}
}
