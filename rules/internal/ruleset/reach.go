package ruleset

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
)

// reach is the conditions of the rules so far, for a file whose first rule decides. It finds rules whose
// requests all meet a rule before them. Each condition is at the one of its places with the fewest
// others. A condition that it covers has that place too, or a part of its range.
type reach map[place][]reached

// place is a part of a condition: a host, a segment, a header with a value or a range, or none.
type place struct {
	rpc    bool
	text   string // of the host or the segment
	at     int    // the number of the segment, 0 for the host
	header header
	client netip.Prefix
}

type reached struct {
	rule      string
	condition *condition
}

// places returns the places of a condition. Its ranges are one, since a request is in any of them.
func (c *condition) places() (all [][]place) {
	for i, text := range append([]string{c.host}, c.segments...) {
		if text != "" {
			all = append(all, []place{{rpc: c.rpc, text: text, at: i}})
		}
	}
	for _, h := range c.headers {
		if h.value != "*" {
			all = append(all, []place{{rpc: c.rpc, header: h}})
		}
	}
	ranges := make([]place, len(c.ranges))
	for i, client := range c.ranges {
		ranges[i] = place{rpc: c.rpc, client: client}
	}
	switch {
	case len(ranges) > 0:
		return append(all, ranges)
	case len(all) == 0:
		return [][]place{{{rpc: c.rpc}}}
	}
	return all
}

// coveredBy returns the name of a rule before r that all requests of r meet, "" for none.
func (known reach) coveredBy(r *rule) (name string) {
	for _, c := range r.conditions {
		if name = known.covering(c); name == "" {
			return ""
		}
	}
	return name
}

func (known reach) covering(c *condition) string {
	places := append(slices.Concat(c.places()...), place{rpc: c.rpc})
	if len(c.ranges) > 0 {
		for bits := range c.ranges[0].Bits() {
			whole, _ := c.ranges[0].Addr().Prefix(bits) // it has as many bits
			places = append(places, place{rpc: c.rpc, client: whole})
		}
	}
	for _, p := range places {
		for _, before := range known[p] {
			if before.condition.covers(c) {
				return before.rule
			}
		}
	}
	return ""
}

func (known reach) add(r *rule) {
	fewest := func(a, b []place) int { return cmp.Compare(len(known[a[0]]), len(known[b[0]])) }
	for _, c := range r.conditions {
		for _, p := range slices.MinFunc(c.places(), fewest) {
			known[p] = append(known[p], reached{r.name, c})
		}
	}
}

// Warnings describes bans of ranges that let a client of an unknown address pass, since no rule behind
// them decides all its requests, and rules that answer 401, which requires a header (RFC 9110, 15.5.2).
func (s *File) Warnings() (all []string) {
	known := make(reach)
	if s.all {
		for _, r := range s.rules {
			known.addDeciding(r)
		}
	}
	for _, r := range slices.Backward(s.rules) {
		opens := func(c *condition) bool {
			unknown := *c
			unknown.ranges = nil
			return len(c.ranges) > 0 && known.covering(&unknown) == ""
		}
		if r.onlyBans() && !r.settings.Shadow && slices.ContainsFunc(r.conditions, opens) {
			all = append(all, fmt.Sprintf("line %d: the rule %q bans ranges: requests of unknown addresses pass it, "+
				"and no rule that fails closed matches all of them", r.line, r.name))
		}
		if r.settings.Status == http.StatusUnauthorized && slices.ContainsFunc(r.conditions, isHTTP) {
			all = append(all, fmt.Sprintf("line %d: the rule %q answers 401, which requires a header WWW-Authenticate: "+
				"set it in a handler around the Middleware or in the proxy, or choose another status", r.line, r.name))
		}
		known.addDeciding(r)
	}
	slices.Reverse(all)
	return all
}

func isHTTP(c *condition) bool { return !c.rpc }

// addDeciding adds a rule, unless requests of unknown addresses pass it.
func (known reach) addDeciding(r *rule) {
	open := r.settings.OnFailure == failureMode{limit.Open, true} &&
		slices.ContainsFunc(r.key, func(p keyPart) bool { return p.kind == "ip" })
	if !open && !r.settings.Shadow {
		known.add(r)
	}
}

// covers reports whether all requests that meet other meet c.
func (c *condition) covers(other *condition) bool {
	if c.rpc && len(c.segments) == 0 && len(other.segments) > 0 && guard.Exempt("/"+other.segments[0]+"/") {
		return false
	}
	return c.pattern.covers(&other.pattern) && c.coversMethods(other) &&
		!slices.ContainsFunc(c.headers, func(h header) bool {
			return !slices.ContainsFunc(other.headers, func(o header) bool {
				return o.name == h.name && (h.value == "*" || h.value == o.value)
			})
		}) &&
		(len(c.ranges) == 0 || len(other.ranges) > 0 && !slices.ContainsFunc(other.ranges, func(o netip.Prefix) bool {
			return !slices.ContainsFunc(c.ranges, func(p netip.Prefix) bool {
				return p.Bits() <= o.Bits() && p.Contains(o.Addr())
			})
		}))
}

func (c *condition) coversMethods(other *condition) bool {
	accepts := func(m string) bool { return c.hasMethod(m) && (len(c.methods) == 0 || hasMethod(c.methods, m)) }
	switch {
	case len(other.methods) > 0:
		return !slices.ContainsFunc(other.methods, func(m method) bool { return other.mayHave(m) && !accepts(string(m)) })
	case other.method != "":
		return accepts(other.method)
	}
	return c.method == "" && len(c.methods) == 0
}

// covers reports whether a pattern matches all hosts and paths that another one matches.
func (p *pattern) covers(other *pattern) bool {
	extra := len(other.segments) - len(p.segments)
	if p.host != "" && p.host != other.host || extra < 0 {
		return false
	}
	for i, want := range p.segments {
		if want != "" && want != other.segments[i] {
			return false
		}
	}
	if p.end == endRest {
		return extra > 0 || other.end != endHere
	}
	return extra == 0 && p.end == other.end
}

// takenOutOfCalls are headers that grpc-go does not leave in the metadata of a call.
var takenOutOfCalls = []string{"Grpc-Encoding", "Grpc-Message", "Grpc-Status", "Grpc-Timeout"}

// checkHeaders reports headers that no call of gRPC has.
func (d *decoder) checkHeaders(n *rulefile.Node, c *condition) {
	for _, h := range c.headers {
		if c.rpc && slices.Contains(takenOutOfCalls, string(h.name)) {
			d.Fail(n, "grpc-go takes the header %s out of a call: no call matches", h.name)
		}
	}
}
