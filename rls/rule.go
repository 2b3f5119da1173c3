package rls

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

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
	wild   [][]byte // the key and value, split at each "*"; nil without wildcards

	limits      []*oneLimit    // empty means no limit
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
	metadata    *structpb.Struct
	below       level
	series      *series // its counters

	advised atomic.Bool // advise has logged the rule
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
		return fmt.Errorf("%q stands in %s:%d already", id, before.file, before.line)
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

// oneLimit is one limit of a rule.
type oneLimit struct {
	line     int
	name     string
	replaces []string

	unlimited bool
	budget    budget
	shown     *ratelimit.RateLimitResponse_RateLimit
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
func matchesWild(parts [][]byte, text []byte) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !bytes.HasPrefix(text, first) || !bytes.HasSuffix(text, last) {
		return false
	}
	rest := text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := bytes.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// find returns the rule of a key and value: an exact one, else the first whose wildcards match,
// else that of the key alone.
func (l *level) find(key, value string) *rule {
	if len(l.exact) == 0 {
		return nil
	}
	var space [128]byte
	both := append(append(append(space[:0], key...), '_'), value...)
	if r := l.exact[string(both)]; r != nil {
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
		d.rules.tell(&b, d.name)
	}
	return b.String()
}

func (l *level) tell(b *strings.Builder, above string) {
	ordered := slices.SortedFunc(maps.Values(l.exact),
		func(a, b *rule) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.place, b.place)) })
	for _, r := range ordered {
		name := above + "." + r.id()
		for _, one := range r.limits {
			fmt.Fprintf(b, "%s: %s, shadow_mode: %t, quota_mode: %t\n", name, one, r.shadow, r.quota)
		}
		r.below.tell(b, name)
	}
}

func (o *oneLimit) String() string {
	if o.unlimited {
		return "unlimited"
	}
	text := fmt.Sprintf("unit=%s requests_per_unit=%d", o.shown.GetUnit(), o.shown.GetRequestsPerUnit())
	if o.budget.kind != "" && o.budget.kind != fixedWindow ||
		o.shown.GetUnit() == ratelimit.RateLimitResponse_RateLimit_UNKNOWN {
		text += fmt.Sprintf(" policy=%T%+v", o.budget.policy, o.budget.policy)
	}
	return text
}
