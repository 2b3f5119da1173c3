package ruleset

import (
	"net/netip"
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// reach is the conditions of the rules so far, for a file whose first rule decides. It finds rules whose
// requests all meet a rule before them. The conditions are found by the host and the last segment that
// is no wildcard, of which a covered condition has the same, or none.
type reach map[place][]reached

type place struct {
	rpc  bool
	host string
	at   int // the index of the segment, -1 for none
	text string
}

type reached struct {
	rule      string
	condition *condition
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
	places := []place{{c.rpc, "", -1, ""}, {c.rpc, c.host, -1, ""}}
	for i, segment := range c.segments {
		if segment != "" {
			places = append(places, place{c.rpc, "", i, segment}, place{c.rpc, c.host, i, segment})
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
	for _, c := range r.conditions {
		p := place{c.rpc, c.host, -1, ""}
		for i, segment := range c.segments {
			if segment != "" {
				p.at, p.text = i, segment
			}
		}
		known[p] = append(known[p], reached{r.name, c})
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

// takenOut are headers that net/http and grpc-go do not leave among the headers of a request.
var takenOut = []string{"Transfer-Encoding", "Trailer"}

// takenOutOfCalls are headers that grpc-go does not leave in the metadata of a call.
var takenOutOfCalls = []string{"Connection", "Te", "Grpc-Encoding", "Grpc-Message", "Grpc-Status", "Grpc-Timeout"}

// checkHeaders reports headers that no call of gRPC has.
func (d *decoder) checkHeaders(n *rulefile.Node, c *condition) {
	for _, h := range c.headers {
		if c.rpc && slices.Contains(takenOutOfCalls, string(h.name)) {
			d.Fail(n, "grpc-go takes the header %s out of a call: no call matches", h.name)
		}
	}
}
