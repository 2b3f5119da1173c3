package otellimit

import (
	"context"
	"net/http"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// Middleware has the instruments of an httplimit.Middleware or Transport, or of an interceptor of
// grpclimit. Several of them can share one. It is safe for concurrent use.
//
// It counts requests in rratelimiter.middleware.requests. The limiter counts its own calls in
// rratelimiter.requests.
type Middleware struct {
	telemetry *Telemetry
	name      string
	sets      *attributeSets
}

// Middleware creates the instruments of a Middleware. The name distinguishes it from others: "http",
// or "api" and "login".
func (t *Telemetry) Middleware(name string) *Middleware {
	m := &Middleware{telemetry: t, name: name, sets: t.registry.of(source{middleware: name})}
	m.addFallback(0) // a graph shows the series before Redis fails
	return m
}

// Outcome is the decision of a middleware on a request.
type Outcome struct {
	Result  string // acquired, rejected, canceled, failed_open, failed_closed or invalid
	Shadow  bool   // the request passed whatever Result is
	Limiter string // the name of the limiter, for [WithLimiterNames]
	Err     error  // why there was no decision; only its kind is reported
}

// outcomes maps Outcome.Result.
var outcomes = map[string]result{
	"acquired":      acquired,
	"rejected":      rejected,
	"canceled":      gaveUp,
	"failed_open":   failedOpen,
	"failed_closed": failedClosed,
	"invalid":       invalid,
}

// Request counts a request. In shadow mode a rejected or invalid request counts as shadowed, and
// one that would have failed closed as failed_open, since they passed.
func (m *Middleware) Request(ctx context.Context, o Outcome) {
	defer survive()
	r, ok := outcomes[o.Result]
	if !ok {
		r = unknown
	}
	f := noFailure
	if r != acquired && r != rejected && r != unknown {
		f = classify(o.Err)
	}
	if o.Shadow {
		switch r {
		case rejected, invalid:
			r = shadowed
		case failedClosed:
			r = failedOpen
		}
	}
	sets := m.sets
	if limiter := m.telemetry.names.of(o.Limiter); limiter != "" {
		sets = m.telemetry.registry.of(source{middleware: m.name, limiter: limiter})
	}
	m.telemetry.middlewareRequests.Add(ctx, 1, sets.with(r, f).add...)
}

// HTTP counts a request, for [httplimit.Report].
func (m *Middleware) HTTP(r *http.Request, o httplimit.Outcome) {
	m.Request(r.Context(), Outcome{Result: o.Result.String(), Shadow: o.Shadow, Limiter: o.Limiter, Err: o.Err})
}

// RedisChange counts the middleware that decides without Redis, for
// [httplimit.OnRedisChange]. If a program discards one while Redis is down, it stays counted until
// the program calls RedisChange(true, nil).
func (m *Middleware) RedisChange(up bool, _ error) {
	if up {
		m.addFallback(-1)
	} else {
		m.addFallback(1)
	}
}

// addFallback changes the number of those that decide without Redis.
func (m *Middleware) addFallback(change int64) {
	defer survive()
	m.telemetry.fallback.Add(context.Background(), change, m.sets.with(noResult, noFailure).add...)
}
