package rules

import (
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
	cost       *cost
	skip       *skip
}

// looksAtPaths reports whether a rule depends on the path of HTTP requests.
func (r *rule) looksAtPaths() bool {
	return r.skip != nil && len(r.skip.paths) > 0 ||
		slices.ContainsFunc(r.conditions, func(c *condition) bool { return !c.rpc && !c.anyOf() })
}

// asks reports whether a request of the rule may need Redis.
func (r *rule) asks() bool {
	if r.limits.asks() {
		return true
	}
	for _, own := range r.overrides {
		if own.asks() {
			return true
		}
	}
	return false
}

// asks reports whether the limits need Redis.
func (l *limits) asks() bool { return !l.refuse && !l.pass }

// ruleFile is a rule, or the defaults, in a file.
type ruleFile struct {
	name, match, key, limits, ban, overrides *rulefile.Node
	policy, cost, skip                       *rulefile.Node
	onFailure, onInvalid                     *rulefile.Node
	deadline, shadow, wait, maxWaiting       *rulefile.Node
}

// ruleFields are the fields of a rule, and defaultFields those of defaults.
var ruleFields, defaultFields = func() (rule, defaults map[string]field[ruleFile]) {
	node := func(place func(*ruleFile) **rulefile.Node) field[ruleFile] {
		return func(_ *decoder, n *rulefile.Node, r *ruleFile) { *place(r) = n }
	}
	defaults = map[string]field[ruleFile]{
		"key":        node(func(r *ruleFile) **rulefile.Node { return &r.key }),
		"policy":     node(func(r *ruleFile) **rulefile.Node { return &r.policy }),
		"cost":       node(func(r *ruleFile) **rulefile.Node { return &r.cost }),
		"skip":       node(func(r *ruleFile) **rulefile.Node { return &r.skip }),
		"on_failure": node(func(r *ruleFile) **rulefile.Node { return &r.onFailure }),
		"on_invalid": node(func(r *ruleFile) **rulefile.Node { return &r.onInvalid }),
		"deadline":   node(func(r *ruleFile) **rulefile.Node { return &r.deadline }),
		"shadow":     node(func(r *ruleFile) **rulefile.Node { return &r.shadow }),
		"wait":       node(func(r *ruleFile) **rulefile.Node { return &r.wait }),

		"max_waiting": node(func(r *ruleFile) **rulefile.Node { return &r.maxWaiting }),
	}
	rule = map[string]field[ruleFile]{
		"name":      node(func(r *ruleFile) **rulefile.Node { return &r.name }),
		"match":     node(func(r *ruleFile) **rulefile.Node { return &r.match }),
		"limits":    node(func(r *ruleFile) **rulefile.Node { return &r.limits }),
		"ban":       node(func(r *ruleFile) **rulefile.Node { return &r.ban }),
		"overrides": node(func(r *ruleFile) **rulefile.Node { return &r.overrides }),
	}
	for name, f := range defaults {
		rule[name] = f
	}
	return rule, defaults
}()

// defaultPolicy is the policy if neither the limit nor the defaults name one: it is strict, and its
// state is bounded.
const defaultPolicy = "sliding_window"

// given fills in the defaults for values that a rule does not have.
func (r *ruleFile) given(defaults *ruleFile) {
	for _, f := range []struct{ own, other **rulefile.Node }{
		{&r.key, &defaults.key}, {&r.policy, &defaults.policy}, {&r.cost, &defaults.cost}, {&r.skip, &defaults.skip},
		{&r.onFailure, &defaults.onFailure}, {&r.onInvalid, &defaults.onInvalid}, {&r.deadline, &defaults.deadline},
		{&r.shadow, &defaults.shadow},
		{&r.wait, &defaults.wait}, {&r.maxWaiting, &defaults.maxWaiting},
	} {
		if *f.own == nil {
			*f.own = *f.other
		}
	}
}

// rule decodes a rule of a domain. It returns nil if it has a problem.
func (d *decoder) rule(n *rulefile.Node, domain string) *rule {
	before := len(d.Problems)
	file := ruleFile{}
	if !rulefile.Fields(d, n, ruleFields, &file) {
		return nil
	}
	r := &rule{line: n.Line}
	if file.name == nil {
		d.Fail(n, "no name: limits count under it, and keep what was taken when the rule moves")
	} else if name, ok := d.Text(file.name, wantName); ok {
		if strings.Trim(name, nameLetters) != "" || len(name) > longestName {
			d.Fail(file.name, "the name %q, want %s", rulefile.Clip(name), wantName)
		}
		r.name, r.line = name, file.name.Line
	}
	r.prefix = r.name
	if domain != "" {
		r.prefix = domain + ":" + r.name
	}
	if file.match == nil {
		r.conditions = []*condition{{pattern: anyPath}, {pattern: anyPath, rpc: true}}
	} else {
		r.conditions = d.match(file.match)
	}
	ownKey := file.key != nil
	file.given(&d.defaults)
	d.settings(&file, r)
	policy := d.policy(file.policy)
	d.what(n, &file, r, policy)
	if !ownKey && file.overrides == nil && r.limits != nil && len(r.limits.policies) == 0 {
		file.key = nil // bans and Redisson limiters do not use it
	}
	if file.key != nil {
		r.key = d.key(file.key)
		if !ownKey && !d.possible(r) {
			d.Fail(n, "the key of the defaults is of a wildcard that match does not have: give a key")
		} else if ownKey {
			d.checkWildcards(file.key, r)
		}
	} else if r.limits != nil && len(r.limits.policies) > 0 {
		d.Fail(n, "no key: say whose requests count together, ip or header:NAME for instance, or all")
	}
	if file.overrides != nil {
		d.overrides(&file, r, policy)
	}
	for _, c := range r.conditions {
		c.source = nil
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

// mostWaiting is the largest bound on requests that wait.
const mostWaiting = 1_000_000

// settings decodes the settings of a rule.
func (d *decoder) settings(file *ruleFile, r *rule) {
	s := &r.settings
	if file.onFailure != nil {
		d.onFailure(file.onFailure, s)
	}
	if file.onInvalid != nil {
		d.onInvalid(file.onInvalid, s)
	}
	if file.deadline != nil {
		s.deadline = d.Duration(file.deadline)
	}
	if file.wait != nil {
		s.wait = d.Duration(file.wait)
	}
	if file.maxWaiting != nil {
		s.maxWaiting = int(d.Number(file.maxWaiting, 1, mostWaiting, "a whole number of requests, 1 to 1,000,000"))
	}
	if file.shadow != nil {
		s.shadow = d.Boolean(file.shadow)
	}
	if file.cost != nil {
		r.cost = d.cost(file.cost)
		s.costs = true
	}
	if file.skip != nil {
		r.skip = &skip{}
		rulefile.Fields(d, file.skip, skipFields, r.skip)
	}
}

// what decodes limits or ban.
func (d *decoder) what(n *rulefile.Node, file *ruleFile, r *rule, policy string) {
	switch {
	case file.ban != nil && file.limits != nil:
		d.Fail(file.ban, "ban and limits: a rule has one of the two")
	case file.ban != nil:
		if !d.Boolean(file.ban) {
			d.Fail(file.ban, "want true, or no ban at all")
		}
		r.limits = &limits{refuse: true}
	case file.limits != nil:
		r.limits = d.limits(file.limits, policy)
	default:
		d.Fail(n, "no limits: give limits, or ban: true")
	}
}

// policy returns the default policy of limits that name none.
func (d *decoder) policy(n *rulefile.Node) string {
	if n == nil {
		return defaultPolicy
	}
	name, ok := d.PolicyName(n)
	if !ok {
		return defaultPolicy
	}
	return name
}

// possible reports whether all conditions of a rule have the wildcards of its key.
func (d *decoder) possible(r *rule) bool {
	for _, part := range r.key {
		for _, c := range r.conditions {
			if part.kind == "path" && !c.hasWildcard(part.name) {
				return false
			}
		}
	}
	return true
}

// checkWildcards reports the condition that lacks a wildcard of the key.
func (d *decoder) checkWildcards(n *rulefile.Node, r *rule) {
	for _, part := range r.key {
		for _, c := range r.conditions {
			if part.kind != "path" || c.hasWildcard(part.name) {
				continue
			}
			at := n
			if c.source != nil {
				at = c.source
			}
			d.Fail(at, "no wildcard {%s} here, of which the key of the rule is", rulefile.Clip(part.name))
			if c.source == nil {
				return // match is not there at all
			}
		}
	}
}
