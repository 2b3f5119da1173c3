package rls

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

type rule struct {
	ruleFields
	file   string
	line   int
	levels []string // the id of each descriptor from the top to this one
	wild   []string // the key and value, split at each "*"; nil without wildcards

	limits   []*rateLimit   // empty means no limit
	limiters *limit.Keyed   // of the limits, once a Server has the rule; nil if a limit needs no Redis
	policies []limit.Policy // of the limits
	dynamic  bool           // the names of its metrics depend on requests
	below    level
	series   *series // its counters
}

// noRule is the rule of a descriptor that no rule matches, or that brings its own limit.
var noRule = &rule{dynamic: true}

// level is the rules of one depth below the same rule.
type level struct {
	exact map[string]*rule // by key, or key_value
	order []*rule          // as in the files
	wild  []*rule          // of order, those with wildcards
}

// add adds a rule to its level. It returns an error if the level has one already.
func (l *level) add(added *rule) error {
	id := added.id()
	if before := l.exact[id]; before != nil {
		return fmt.Errorf("%q is defined in %s:%d already: merge the two, with the descriptors of both below one",
			id, before.file, before.line)
	}
	if l.exact == nil {
		l.exact = make(map[string]*rule)
	}
	l.exact[id], l.order = added, append(l.order, added)
	if added.wild != nil {
		l.wild = append(l.wild, added)
	}
	return nil
}

// each calls a function for each rule of a level, and for those below it.
func (l *level) each(f func(*rule)) {
	for _, r := range l.order {
		f(r)
		r.below.each(f)
	}
}

// id returns the key of a rule in its level.
func (r *rule) id() string { return idOf(r.Key, r.Value) }

func idOf(key, value string) string {
	if value == "" {
		return key
	}
	return key + "_" + value
}

// complete sets the levels of the rules of a level, which are below others, and of those below them.
func (l *level) complete(above []string) {
	for _, r := range l.order {
		r.levels = append(slices.Clip(above), r.id())
		r.below.complete(r.levels)
	}
}

type domain struct {
	name   string
	file   string
	slotBy string // the key whose value puts limiters into one slot of a cluster
	rules  level
}

// Rules is the configuration of a service from all of its files. It is immutable. The zero Rules
// has no limits.
type Rules struct {
	domains map[string]*domain
	order   []*domain // as in the files
}

// Domains returns the domains that have rules, in the order of the files.
func (r *Rules) Domains() []string {
	names := make([]string, len(r.order))
	for i, d := range r.order {
		names[i] = d.name
	}
	return names
}

// Len returns the number of limits.
func (r *Rules) Len() (n int) {
	for _, d := range r.order {
		d.rules.each(func(r *rule) { n += len(r.limits) })
	}
	return n
}

// String returns each limit in a line: its domain, keys and values, and its rate.
func (r *Rules) String() string {
	var b strings.Builder
	for _, d := range r.order {
		d.rules.each(func(r *rule) {
			name := d.name + "." + strings.Join(r.levels, ".")
			for _, one := range r.limits {
				fmt.Fprintf(&b, "%s: %s, shadow_mode: %t, quota_mode: %t\n", name, one, r.ShadowMode, r.QuotaMode)
			}
		})
	}
	return b.String()
}

func (r *rule) open(client *rratelimiter.Client) {
	r.policies = policiesOf(r.limits)
	if len(r.policies) > 0 && !slices.Contains(r.policies, nil) {
		r.limiters = limit.NewKeyed(client, namePrefix, r.policies...)
	}
}

// find returns the rule of a key and value: an exact one, else the first whose wildcards match,
// else that of the key alone.
func (l *level) find(key, value string) *rule {
	both := key + "_" + value
	if r := l.exact[both]; r != nil {
		return r
	}
	for _, r := range l.wild {
		if matchesWild(r.wild, both) {
			return r
		}
	}
	return l.exact[key]
}

// matchesWild reports whether a text matches a pattern that was split at each "*" of one or more.
func matchesWild(parts []string, text string) bool {
	rest, ok := strings.CutPrefix(text, parts[0])
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, behind, found := strings.Cut(rest, part)
		ok, rest = ok && found, behind
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// ruleFields are the fields of a descriptor that its rule keeps as they are.
type ruleFields struct {
	Key, Value                      string
	ShadowMode, QuotaMode, Overdraw bool
	DetailedMetric, ValueToMetric   bool
	ShareThreshold                  bool
	Metadata                        metadata
}
