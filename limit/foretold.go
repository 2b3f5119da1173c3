package limit

import (
	"slices"
	"strconv"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// tellsRefusals is the letter of a call that tells all where not all is granted.
const tellsRefusals = "r"

// foretells says whether all that the requests of a batch want to know follows from how many permits are left, where they are granted: when
// an aligned window ends everybody knows. To tell all is a third of what a grant costs the server.
func (p *protocol) foretells(b *engine.Batch) bool {
	if b.Full || b.Lease.Span > 0 || p.client.Engine.ServerTime() || len(p.members) > 1 {
		return false
	}
	window, ok := p.members[0].policy.(FixedWindow)
	return ok && window.Aligned && !slices.ContainsFunc(b.Requests, func(r *engine.Request) bool { return r.Each })
}

// foretold is what follows from how many permits are left, where it does.
func (p *protocol) foretold(b *engine.Batch, left int64) engine.Answer {
	window, ok := p.members[0].policy.(FixedWindow)
	if !ok || b.Args[len(b.Args)-1] != tellsRefusals {
		return engine.Answer{}
	}
	now, err := strconv.ParseInt(b.Args[0], 10, 64)
	if err != nil {
		return engine.Answer{}
	}
	o := window.at(now, left)
	return engine.Answer{Limit: o.limit(), ResetAfter: o.reset()}
}
