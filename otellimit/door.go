package otellimit

import (
	"context"
	"net/http"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// Door has the instruments of one Middleware, Transport or interceptor, or of several that share a
// name. It is safe for concurrent use.
//
// It counts requests in rratelimiter.door.requests. The limiter counts its own calls in
// rratelimiter.requests.
type Door struct {
	telemetry *Telemetry
	name      string
	sets      *sets
}

// Door creates the instruments of a Door. The name distinguishes it from others: "http", or "api"
// and "login".
func (t *Telemetry) Door(name string) *Door {
	d := &Door{telemetry: t, name: name, sets: t.subjects.of(subject{door: name})}
	d.addFallback(0) // a graph shows the series before Redis fails
	return d
}

// Outcome is the result of a request at a Door.
type Outcome struct {
	Result  string // acquired, rejected, canceled, failed_open or failed_closed
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
}

// Request counts a request. In shadow mode a rejected request counts as shadowed, and one that would
// have failed closed as failed_open, since both passed.
func (d *Door) Request(ctx context.Context, o Outcome) {
	defer survive()
	r, ok := outcomes[o.Result]
	if !ok {
		r = unknown
	}
	if o.Shadow {
		switch r {
		case rejected:
			r = shadowed
		case failedClosed:
			r = failedOpen
		}
	}
	f := noFailure
	if r == failedOpen || r == failedClosed || r == gaveUp {
		f = classify(o.Err)
	}
	sets := d.sets
	if limiter := d.telemetry.names.of(o.Limiter); limiter != "" {
		sets = d.telemetry.subjects.of(subject{door: d.name, limiter: limiter})
	}
	d.telemetry.doorRequests.Add(ctx, 1, sets.with(r, f).add...)
}

// HTTP counts a request, for [httplimit.Report].
func (d *Door) HTTP(r *http.Request, o httplimit.Outcome) {
	d.Request(r.Context(), Outcome{Result: o.Result.String(), Shadow: o.Shadow, Limiter: o.Limiter, Err: o.Err})
}

// StoreChange counts the Middlewares and Transports that decide without Redis, for
// [httplimit.OnStoreChange]. If a program discards one while Redis is down, it stays counted until
// the program calls StoreChange(true, nil).
func (d *Door) StoreChange(up bool, _ error) {
	if up {
		d.addFallback(-1)
	} else {
		d.addFallback(1)
	}
}

// addFallback changes the number of those that decide without Redis.
func (d *Door) addFallback(change int64) {
	defer survive()
	d.telemetry.fallback.Add(context.Background(), change, d.sets.with(noResult, noFailure).add...)
}
