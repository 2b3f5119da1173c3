package otellimit

import (
	"context"
	"net/http"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// Door is the instruments of a place where requests are limited: a Middleware or Transport of package httplimit, or several that
// are told as one. It is safe for concurrent use.
//
// What becomes of a request here is counted in an instrument of its own, since the limiter that is asked for it counts in
// rratelimiter.requests: nothing is counted twice.
type Door struct {
	telemetry *Telemetry
	name      string
	sets      *sets
}

// Door makes the instruments of a door. The name tells it apart from others: "http", or "api" and "login".
func (t *Telemetry) Door(name string) *Door {
	d := &Door{telemetry: t, name: name, sets: t.subjects.of(subject{door: name})}
	d.falls(0) // so that a graph shows it before Redis fails
	return d
}

// Outcome is what became of a request at a door.
type Outcome struct {
	Result  string // acquired, rejected, canceled, failed_open or failed_closed
	Shadow  bool   // it passed whatever Result says
	Limiter string // the name of the limiter, for [WithLimiterNames]
	Err     error  // why nobody could decide; not told but by its kind
}

// outcomes are the texts of Outcome.Result.
var outcomes = map[string]result{
	"acquired": acquired, "rejected": rejected, "canceled": gaveUp, "failed_open": failedOpen, "failed_closed": failedClosed,
}

// Request counts a request. In shadow what would have been rejected is shadowed, and what would have failed closed has failed open:
// it passed.
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

// StoreChange counts the doors that do without Redis, for [httplimit.OnStoreChange]. Each Middleware and Transport counts by
// itself. One that a program gives up while Redis is down would count for ever: the program then calls StoreChange(true, nil) for it.
func (d *Door) StoreChange(up bool, _ error) {
	if up {
		d.falls(-1)
	} else {
		d.falls(1)
	}
}

// falls says how many more do without Redis.
func (d *Door) falls(change int64) {
	defer survive()
	d.telemetry.fallback.Add(context.Background(), change, d.sets.with(noResult, noFailure).add...)
}
