package otellimit

import (
	"context"
	"net/http"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Middleware has the instruments of an httplimit.Middleware or Transport, or of an interceptor of
// grpclimit. Several of them can share one. It is safe for concurrent use.
//
// It counts requests in rratelimiter.middleware.requests. The limiter counts its own calls in
// rratelimiter.requests.
type Middleware struct {
	telemetry *Telemetry
	name      string
}

// Middleware creates the instruments of a Middleware. The name distinguishes it from others: "http",
// or "api" and "login".
func (t *Telemetry) Middleware(name string) *Middleware {
	m := &Middleware{telemetry: t, name: name}
	m.addFallback("", 0) // a graph shows the series before Redis fails
	return m
}

// Request counts a request, for the Report of any middleware. Only the kind of its Err is reported. In
// shadow mode a rejected or invalid request counts as shadowed, and one that would have failed closed
// as failed_open, since they passed.
func (m *Middleware) Request(ctx context.Context, o limit.Outcome) {
	defer survive()
	l := labels{middleware: m.name, limiter: m.telemetry.names.valueOf(o.Limiter), result: result(o.Result.String())}
	if l.result != acquired && l.result != rejected {
		l.failure = classify(o.Err)
	}
	if o.Shadow {
		switch l.result {
		case rejected, invalid:
			l.result = shadowed
		case failedClosed:
			l.result = failedOpen
		}
	}
	if o.Local {
		l.source = "share"
	}
	m.telemetry.middlewareRequests.Add(ctx, 1, m.telemetry.registry.get(l).add...)
}

// HTTP counts a request, for [httplimit.Report].
func (m *Middleware) HTTP(r *http.Request, o limit.Outcome) { m.Request(r.Context(), o) }

// GRPC returns a function that counts the requests of m, for Report of grpclimit, on which this module
// does not depend: Report(otellimit.GRPC[grpclimit.Call](m)).
func GRPC[Call any](m *Middleware) func(context.Context, Call, limit.Outcome) {
	return func(ctx context.Context, _ Call, o limit.Outcome) { m.Request(ctx, o) }
}

// RedisChange counts the middleware that decides without a node of Redis, for
// [httplimit.OnRedisChange]. If a program discards one during an outage, it stays counted until
// the program calls RedisChange(node, true, nil).
func (m *Middleware) RedisChange(node string, up bool, _ error) {
	change := int64(1)
	if up {
		change = -1
	}
	m.addFallback(node, change)
}

// addFallback changes the number of those that decide without a node.
func (m *Middleware) addFallback(node string, change int64) {
	defer survive()
	l := labels{middleware: m.name, node: node}
	m.telemetry.fallback.Add(context.Background(), change, m.telemetry.registry.get(l).add...)
}

// RulesReloaded counts a reload of a rules file and whether it failed, for rules.OnReload.
func (t *Telemetry) RulesReloaded(err error) {
	defer survive()
	r := succeeded
	if err != nil {
		r = failed
	}
	t.reloads.Add(context.Background(), 1, t.registry.get(labels{result: r}).add...)
}
