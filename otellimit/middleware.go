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
	sets      *attributeSets
}

// Middleware creates the instruments of a Middleware. The name distinguishes it from others: "http",
// or "api" and "login".
func (t *Telemetry) Middleware(name string) *Middleware {
	m := &Middleware{telemetry: t, name: name, sets: t.registry.of(source{middleware: name})}
	m.addFallback("", 0) // a graph shows the series before Redis fails
	return m
}

var outcomes = map[limit.Result]result{
	limit.Acquired:     acquired,
	limit.Rejected:     rejected,
	limit.Canceled:     gaveUp,
	limit.FailedOpen:   failedOpen,
	limit.FailedClosed: failedClosed,
	limit.Invalid:      invalid,
}

// Request counts a request, for the Report of any middleware; the Outcome of grpclimit is the same
// type. Only the kind of its Err is reported. In shadow mode a rejected or invalid request counts as shadowed, and
// one that would have failed closed as failed_open, since they passed.
func (m *Middleware) Request(ctx context.Context, o limit.Outcome) {
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
	key := source{middleware: m.name, limiter: m.telemetry.names.of(o.Limiter)}
	if o.Local {
		key.by = "share"
	}
	sets := m.sets
	if key.limiter != "" || key.by != "" {
		sets = m.telemetry.registry.of(key)
	}
	m.telemetry.middlewareRequests.Add(ctx, 1, sets.with(r, f).add...)
}

// HTTP counts a request, for [httplimit.Report].
func (m *Middleware) HTTP(r *http.Request, o limit.Outcome) { m.Request(r.Context(), o) }

// RedisChange counts the middleware that decides without a node of Redis, for
// [httplimit.OnRedisChange]. If a program discards one during an outage, it stays counted until
// the program calls RedisChange(node, true, nil).
func (m *Middleware) RedisChange(node string, up bool, _ error) {
	if up {
		m.addFallback(node, -1)
	} else {
		m.addFallback(node, 1)
	}
}

// addFallback changes the number of those that decide without a node.
func (m *Middleware) addFallback(node string, change int64) {
	defer survive()
	sets := m.sets
	if node != "" {
		sets = m.telemetry.registry.of(source{middleware: m.name, node: node})
	}
	m.telemetry.fallback.Add(context.Background(), change, sets.with(noResult, noFailure).add...)
}

// RulesReloaded counts a reload of a rules file and whether it failed, for rules.OnReload.
func (t *Telemetry) RulesReloaded(err error) {
	defer survive()
	r := succeeded
	if err != nil {
		r = failed
	}
	t.reloads.Add(context.Background(), 1, t.rules.with(r, noFailure).add...)
}
