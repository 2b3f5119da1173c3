package rls

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// rule is a descriptor of the configuration.
type rule struct {
	file   string
	line   int
	place  int // among the descriptors of its file
	key    string
	value  string
	levels []string // key and value of each descriptor from the top to this one, for metrics
	wild   []string // the key and value, split at each "*"; nil without wildcards

	limits      []*rateLimit   // empty means no limit
	limiters    *limit.Keyed   // of the limits, once a Server has the rule; nil if a limit needs no Redis
	policies    []limit.Policy // of the limits
	shadow      bool
	quota       bool
	overdraw    bool
	detailed    bool
	valueInName bool // value_to_metric
	dynamic     bool // the names of its metrics depend on requests
	shared      bool // share_threshold
	hashed      bool // hash_value
	metadata    map[string]any
	below       level
	series      *series // its counters

	warned atomic.Bool // warnOfCharge has logged the rule
}

// level is the rules of one depth below the same rule.
type level struct {
	exact map[string]*rule // by key, or key_value
	wild  []*rule          // in the order of the file
}

// add adds a rule to its level. It returns an error if the level has one already.
func (l *level) add(made *rule) error {
	id := made.id()
	if before := l.exact[id]; before != nil {
		return fmt.Errorf("%q is defined in %s:%d already", id, before.file, before.line)
	}
	if l.exact == nil {
		l.exact = make(map[string]*rule)
	}
	l.exact[id] = made
	if made.wild != nil {
		l.wild = append(l.wild, made)
	}
	return nil
}

// id returns the key of a rule in its level.
func (r *rule) id() string {
	if r.value == "" {
		return r.key
	}
	return r.key + "_" + r.value
}

// domain is the rules of one domain.
type domain struct {
	name   string
	file   string
	slotBy string // the key whose value puts limiters into one slot of a cluster
	rules  level
	web    *web // nil without the part http
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
		n += d.rules.limits()
	}
	return n
}

func (l *level) limits() (n int) {
	for _, r := range l.exact {
		n += len(r.limits) + r.below.limits()
	}
	return n
}

// open opens the limiters of a level.
func (l *level) open(client *rratelimiter.Client) {
	for _, r := range l.exact {
		r.policies = policiesOf(r.limits)
		if len(r.policies) > 0 && !slices.Contains(r.policies, nil) {
			r.limiters = limit.NewKeyed(client, namePrefix, r.policies...)
		}
		r.below.open(client)
	}
}

// matchesWild reports whether a text matches a pattern that was split at each "*".
func matchesWild(parts []string, text string) bool {
	rest, ok := strings.CutPrefix(text, parts[0])
	if len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, behind, found := strings.Cut(rest, part)
		ok, rest = ok && found, behind
	}
	return ok && strings.HasSuffix(rest, parts[last])
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

// String returns each limit in a line: its domain, keys and values, and its rate.
func (r *Rules) String() string {
	var b strings.Builder
	for _, d := range r.order {
		d.rules.write(&b, d.name)
	}
	return b.String()
}

func (l *level) write(b *strings.Builder, above string) {
	ordered := slices.SortedFunc(maps.Values(l.exact),
		func(a, b *rule) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.place, b.place)) })
	for _, r := range ordered {
		name := above + "." + r.id()
		for _, one := range r.limits {
			fmt.Fprintf(b, "%s: %s, shadow_mode: %t, quota_mode: %t\n", name, one, r.shadow, r.quota)
		}
		r.below.write(b, name)
	}
}
