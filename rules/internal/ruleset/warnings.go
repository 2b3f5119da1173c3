package ruleset

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// mostCompared is the most rules of a file of which each is compared with all before it.
const mostCompared = 2000

// Warnings describes what a valid file may not mean:
//   - Rules that no request reaches.
//   - Bans of ranges that let a client of an unknown address pass: no rule behind them decides all its requests.
//   - Local shares of less than a permit.
//   - Rules that answer 401, which requires a header (RFC 9110, 15.5.2).
func (f *File) Warnings() (all []string) {
	behind := slices.DeleteFunc(slices.Clone(f.rules), func(r *rule) bool { return !r.decidesUnknown() })
	for i, r := range f.rules {
		warn := func(format string, values ...any) {
			all = append(all, fmt.Sprintf("line %d: the rule %q ", r.line, r.name)+fmt.Sprintf(format, values...))
		}
		if !f.all && i < mostCompared {
			if by := coveredBy(f.rules[:i], r); by != "" {
				warn("gets no request, since the rule %q before it matches them all: write it first, or match: all", by)
			}
		}
		opens := func(c *condition) bool {
			unknown := *c
			unknown.ranges = nil
			return len(c.ranges) > 0 && !slices.ContainsFunc(behind, func(other *rule) bool { return other.covers(&unknown) })
		}
		if r.onlyBans() && !r.settings.Shadow && slices.ContainsFunc(r.conditions, opens) {
			warn("bans ranges: requests of unknown addresses pass it, and no rule that fails closed matches all of them")
		}
		if share := r.settings.OnFailure.mode; share > 0 {
			for _, p := range r.limits.policies {
				if d, _ := policy.Of(p); d.Refill != policy.Pausing && d.Refill != policy.OnCredit &&
					float64(d.Local.Permits)*float64(share)*(1+1e-12) < 1 {
					warn("refuses all requests while Redis is down: its share is less than one of %d permits: "+
						"choose a larger share, or another mode", d.Local.Permits)
				}
			}
		}
		if r.settings.Status == http.StatusUnauthorized &&
			slices.ContainsFunc(r.conditions, func(c *condition) bool { return !c.rpc }) {
			warn("answers 401, which requires a header WWW-Authenticate: " +
				"set it in a handler around the Middleware or in the proxy, or choose another status")
		}
		if !f.all && len(behind) > 0 && behind[0] == r {
			behind = behind[1:]
		}
	}
	return all
}

// coveredBy returns the name of a rule that all requests of r meet, "" for none.
func coveredBy(before []*rule, r *rule) (name string) {
	for _, c := range r.conditions {
		at := slices.IndexFunc(before, func(other *rule) bool { return other.covers(c) })
		if at < 0 {
			return ""
		}
		name = before[at].name
	}
	return name
}

// decidesUnknown reports whether the rule decides requests of unknown addresses, and none passes by its mode.
func (r *rule) decidesUnknown() bool {
	open := r.settings.OnFailure == failureMode{limit.Open, true} &&
		slices.ContainsFunc(r.key, func(p keyPart) bool { return p.kind == partIP })
	return !open && !r.settings.Shadow &&
		slices.ContainsFunc(r.conditions, func(c *condition) bool { return len(c.ranges) == 0 })
}

func (r *rule) covers(c *condition) bool {
	return slices.ContainsFunc(r.conditions, func(other *condition) bool { return other.covers(c) })
}

// covers reports whether all requests that meet other meet c. It does not look for ranges within others.
func (c *condition) covers(other *condition) bool {
	extra := len(other.segments) - len(c.segments)
	if c.rpc != other.rpc || c.host != "" && c.host != other.host || extra < 0 ||
		len(c.ranges) > 0 && !slices.Equal(c.ranges, other.ranges) {
		return false
	}
	if c.rpc && len(c.segments) == 0 && extra > 0 && httptarget.Exempt("/"+other.segments[0]+"/") {
		return false
	}
	for i, want := range c.segments {
		if want != "" && want != other.segments[i] {
			return false
		}
	}
	if c.end == endRest && extra == 0 && other.end == endHere || c.end != endRest && (extra > 0 || c.end != other.end) {
		return false
	}
	return c.coversMethods(other) && !slices.ContainsFunc(c.headers, func(h header) bool {
		return !slices.ContainsFunc(other.headers, func(o header) bool {
			return o.name == h.name && (h.value == "*" || h.value == o.value)
		})
	})
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
