package ruleset

import (
	"maps"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

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

func (r *rule) usesPaths() bool {
	return len(r.skip.paths) > 0 ||
		slices.ContainsFunc(r.conditions, func(c *condition) bool { return !c.rpc && !c.anyOf() })
}

func (r *rule) usesHosts() bool {
	return slices.ContainsFunc(r.conditions, func(c *condition) bool { return c.host != "" })
}

func (r *rule) allLimits() []*limits {
	return append([]*limits{r.limits}, slices.Collect(maps.Values(r.overrides))...)
}

// onlyBans reports whether the rule takes no permits, and so has no failure mode.
func (r *rule) onlyBans() bool {
	return !slices.ContainsFunc(r.allLimits(), func(l *limits) bool { return !l.ban && !l.pass })
}

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
func (d *decoder) rule(n *rulefile.Node, defaults *defaultsFile) *rule {
	before := len(d.Problems)
	file := ruleFile{defaultsFile: *defaults}
	if !d.Fields(n, &file) {
		return nil
	}
	r := &rule{line: n.Line}
	d.name(n, file.Name, r)
	if file.Match == nil {
		r.conditions = []*condition{{pattern: anyPath}, {pattern: anyPath, rpc: true}}
	} else {
		r.conditions = d.conditions(file.Match)
	}
	r.settings, r.cost, r.skip = file.settings, file.Cost, d.skip(file.Skip)
	r.settings.costs = file.Cost != cost{}
	policy := d.RatedPolicy(file.Policy, nil, defaultPolicy).Name
	r.limits = d.limitsOrBan(n, &file, policy)
	d.ruleKey(n, &file, r, file.Key.at != defaults.Key.at)
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

// ruleKey sets the key of a rule, its own or that of the defaults. Bans and Redisson limiters do not use
// the key of the defaults.
func (d *decoder) ruleKey(n *rulefile.Node, file *ruleFile, r *rule, own bool) {
	needed := r.limits != nil && len(r.limits.policies) > 0
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

func (d *decoder) overrides(list *rulefile.Node, r *rule, policy string) {
	if r.key == nil {
		d.Fail(list, "the rule has no key, and so none to override")
		return
	}
	r.overrides = make(map[string]*limits)
	d.List(list, "a list of overrides, as {key: gold, limits: 1000/m}", func(n *rulefile.Node) {
		var file struct{ Key, Limits, Ban, Unlimited *rulefile.Node }
		if !d.Fields(n, &file) {
			return
		}
		if file.Key == nil {
			d.Fail(n, "no key: say whose limits these are")
			return
		}
		key, ok := d.overrideKey(file.Key, r)
		if !ok {
			return
		}
		if r.overrides[key] != nil {
			d.Fail(file.Key, "the key %q is there twice", rulefile.Clip(key))
			return
		}
		l, stated := &limits{}, 0
		if file.Limits != nil {
			l, stated = d.limits(file.Limits, policy), 1
		}
		if file.Ban != nil {
			d.flag(file.Ban)
			l, stated = &limits{ban: true}, stated+1
		}
		if file.Unlimited != nil {
			d.flag(file.Unlimited)
			l, stated = &limits{pass: true}, stated+1
		}
		if stated != 1 {
			d.Fail(n, "an override has one of limits, ban: true and unlimited: true")
		}
		r.overrides[key] = l
	})
}
