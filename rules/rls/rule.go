package rls

import (
	"fmt"
	"slices"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

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

const namePrefix = "rls"

func (r *rule) open(client *rratelimiter.Client) {
	r.policies = policiesOf(r.limits)
	if len(r.policies) > 0 && !slices.Contains(r.policies, nil) {
		r.limiters = limit.NewKeyed(client, namePrefix, r.policies...)
	}
}

func policiesOf(limits []*rateLimit) []limit.Policy {
	policies := make([]limit.Policy, len(limits))
	for i, one := range limits {
		policies[i] = one.policy
	}
	return policies
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

// metadata is a mapping of any values, in the types of JSON.
type metadata map[string]any

// fixedWindow is the policy of a limit without one.
const fixedWindow = "fixed_window"

var unitLengths = map[ratelimit.RateLimitResponse_RateLimit_Unit]time.Duration{
	ratelimit.RateLimitResponse_RateLimit_SECOND: time.Second,
	ratelimit.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	ratelimit.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	ratelimit.RateLimitResponse_RateLimit_DAY:    24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_WEEK:   7 * 24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_MONTH:  30 * 24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_YEAR:   365 * 24 * time.Hour,
}

type rateLimit struct {
	name      string
	replaces  []string // names of limits
	unlimited bool
	kind      string       // of the policy
	policy    limit.Policy // nil grants nothing
	interval  time.Duration
	most      uint64 // the largest grant at once
	onCredit  bool   // a request may take more than is free
	current   *ratelimit.RateLimitResponse_RateLimit
}

// override returns the limit that a request brings. Its windows are aligned.
func override(brought *common.RateLimitDescriptor_RateLimitOverride) (*rateLimit, bool) {
	unit := ratelimit.RateLimitResponse_RateLimit_Unit(brought.GetUnit()) // both enums have the same numbers
	interval, ok := unitLengths[unit]
	permits := brought.GetRequestsPerUnit()
	l := &rateLimit{
		kind: fixedWindow, interval: interval, most: uint64(permits),
		current: &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: permits, Unit: unit},
	}
	if permits > 0 {
		l.policy = limit.FixedWindow{Permits: int64(permits), Interval: interval, Aligned: true}
	}
	return l, ok
}

// reset returns the remaining time of the current window, for a status without a call to Redis.
func (l *rateLimit) reset(now time.Time) time.Duration {
	if p, ok := l.policy.(limit.FixedWindow); ok && !p.Aligned || !ok && l.policy != nil {
		return l.interval
	}
	return l.interval - time.Duration(now.UnixNano()%int64(l.interval))
}

func (l *rateLimit) String() string {
	if l.unlimited {
		return "unlimited"
	}
	text := fmt.Sprintf("unit=%s requests_per_unit=%d", l.current.GetUnit(), l.current.GetRequestsPerUnit())
	if l.kind != fixedWindow || l.current.GetUnit() == ratelimit.RateLimitResponse_RateLimit_UNKNOWN {
		text += fmt.Sprintf(" policy=%T%+v", l.policy, l.policy)
	}
	return text
}
