package ruleset

import (
	"maps"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// rule is a decoded rule.
type rule struct {
	name       string
	line       int
	prefix     string // of the names of its limiters
	conditions []*condition
	key        []keyPart // nil: all requests count together
	limits     *limits
	overrides  map[string]*limits // by key
	settings   settings
	cost       cost
	skip       skip
}

// usesPaths reports whether a rule depends on the path of HTTP requests.
func (r *rule) usesPaths() bool {
	return len(r.skip.paths) > 0 ||
		slices.ContainsFunc(r.conditions, func(c *condition) bool { return !c.rpc && !c.anyOf() })
}

// allLimits returns the limits of a rule and of its overrides.
func (r *rule) allLimits() []*limits {
	return append([]*limits{r.limits}, slices.Collect(maps.Values(r.overrides))...)
}

// needsRedis reports whether a request of the rule may need Redis.
func (r *rule) needsRedis() bool {
	return slices.ContainsFunc(r.allLimits(), func(l *limits) bool { return !l.ban && !l.pass })
}

// ruleFile is a rule in a file.
type ruleFile struct {
	Name, Match, Limits, Ban, Overrides *rulefile.Node
	defaultsFile
}

// defaultsFile is the fields that a rule takes from the defaults if it does not have them.
type defaultsFile struct {
	Key          key
	Cost         cost
	Policy, Skip *rulefile.Node
	settings
}

// defaultPolicy is the policy if neither the limit nor the defaults name one: it is strict, and its
// state is bounded.
const defaultPolicy = "sliding_window"

// rule decodes a rule. It returns nil if it has a problem.
func (d *decoder) rule(n *rulefile.Node) *rule {
	before := len(d.Problems)
	file := ruleFile{defaultsFile: d.defaults}
	if !d.Fields(n, &file) {
		return nil
	}
	r := &rule{line: n.Line}
	d.name(n, file.Name, r)
	if file.Match == nil {
		r.conditions = []*condition{{pattern: anyPath}, {pattern: anyPath, rpc: true}}
	} else {
		r.conditions = d.match(file.Match)
	}
	r.settings, r.cost, r.skip = file.settings, file.Cost, d.skip(file.Skip)
	r.settings.costs = file.Cost != cost{}
	policy, _ := d.PolicyName(file.Policy, defaultPolicy)
	r.limits = d.limitsOrBan(n, &file, policy)
	d.ruleKey(n, &file, r)
	if file.Overrides != nil {
		d.overrides(file.Overrides, r, policy)
	}
	if len(d.Problems) > before {
		return nil
	}
	return r
}

const (
	nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	longestName = 128
	wantName    = "a text of letters, digits, dots, dashes and underscores, at most 128"
)

// name decodes the name of a rule.
func (d *decoder) name(n, stated *rulefile.Node, r *rule) {
	if stated == nil {
		d.Fail(n, "no name: limits count under it, and keep what was taken when the rule moves")
		return
	}
	name, ok := d.Text(stated, wantName)
	if ok && (strings.Trim(name, nameLetters) != "" || len(name) > longestName) {
		d.Fail(stated, "the name %q, want %s", rulefile.Clip(name), wantName)
	}
	r.name, r.line, r.prefix = name, stated.Line, name
	if d.domain != "" {
		r.prefix = d.domain + ":" + name
	}
}

// ruleKey decodes the key of a rule. Bans and Redisson limiters do not use the key of the defaults.
func (d *decoder) ruleKey(n *rulefile.Node, file *ruleFile, r *rule) {
	needed := r.limits != nil && len(r.limits.policies) > 0
	own := file.Key.at != d.defaults.Key.at
	switch {
	case file.Key.at == nil:
		if needed {
			d.Fail(n, "no key: say whose requests count together, ip or header:NAME for instance, or all")
		}
		return
	case !own && !needed && r.limits != nil && file.Overrides == nil:
		return
	case own:
		n = file.Key.at
	}
	r.key = file.Key.parts
	for _, part := range r.key {
		lacks := func(c *condition) bool {
			_, has := c.wild[part.name]
			return !has
		}
		if part.kind == "path" && slices.ContainsFunc(r.conditions, lacks) {
			d.Fail(n, "the key needs the wildcard {%s} in each pattern of match", rulefile.Clip(part.name))
		}
	}
}

// limitsOrBan decodes what a rule does with requests. It returns nil for a problem.
func (d *decoder) limitsOrBan(n *rulefile.Node, file *ruleFile, policy string) *limits {
	switch {
	case file.Ban != nil && file.Limits != nil:
		d.Fail(file.Ban, "ban and limits: a rule has one of the two")
	case file.Ban != nil:
		d.flag(file.Ban)
		return &limits{ban: true}
	case file.Limits != nil:
		return d.limits(file.Limits, policy)
	default:
		d.Fail(n, "no limits: give limits, or ban: true")
	}
	return nil
}

// flag decodes a field that is true or left out.
func (d *decoder) flag(n *rulefile.Node) {
	if !d.Boolean(n) {
		d.Fail(n, "want true, or leave it out")
	}
}
