package ruleset

import (
	"context"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// jointAcquire takes permits of some of a request's limits atomically, in one call.
type jointAcquire struct {
	settings settings
	rules    []string
	key      string // of the first rule
	cost     int64
	err      error         // why there is no limiter
	limiter  guard.Limiter // with its description; nil until the members are joined
	members  guard.Joint   // nil if no others can join
}

// acquires returns the joint acquires of a request, nil for none. If routers interpret its path in
// several ways, the rules and keys of each interpretation apply.
func (s *File) acquires(o *opener, r *Request) []jointAcquire {
	rules, path := &s.http, httptarget.Path{Text: r.Method}
	if r.Path == nil {
		rules = &s.grpc
	} else {
		var err error
		if path, err = r.Path(s.allowSlashes); err != nil && s.usesPaths {
			return refused(err)
		}
		if r.noHost != nil && s.usesHosts {
			return refused(r.noHost)
		}
	}
	readings := [][]string{segmentsOf(path.Text)}
	for _, other := range path.Others {
		readings = append(readings, segmentsOf(other))
	}
	var all []jointAcquire
	for _, segments := range readings {
		for _, m := range rules.find(r, segments, s.all) {
			if chosen := s.rules[m.rule]; !chosen.skip.skips(r, readings) {
				all = chosen.appendAcquires(all, o, r, segments, m)
			}
		}
	}
	return joinAdjacent(all, o)
}

// refused refuses a request that the file cannot read.
func refused(err error) []jointAcquire {
	return []jointAcquire{{settings: refusing(settings{}), cost: 1, err: err}}
}

// appendAcquires adds the joint acquires of a rule: one, if its limiters share a slot. A rule has
// them once for each key.
func (r *rule) appendAcquires(all []jointAcquire, o *opener, request *Request, segments []string,
	m match) []jointAcquire {
	a := jointAcquire{settings: r.settings, rules: []string{r.name}, cost: 1, err: m.unknown}
	if a.err != nil {
		return append(all, a)
	}
	a.cost, a.err = r.cost.of(request)
	chosen := []*limits{r.limits}
	if r.key != nil && (!r.limits.ban || len(r.overrides) > 0) {
		key, exact, err := keyOf(r.key, request, segments, m.condition)
		if err != nil && !r.limits.ban {
			a.err = err
			return append(all, a)
		}
		a.key, chosen = key, r.limitsOf(key, exact)
	}
	if slices.ContainsFunc(all, func(other jointAcquire) bool { return other.of(r, a.key) }) {
		return all
	}
	for _, l := range chosen {
		all = r.appendLimits(all, o, a, l)
	}
	return all
}

// limitsOf returns the limits of a key. A key that was sent in another spelling has the limits of
// the rule too, so that no spelling gets more than it.
func (r *rule) limitsOf(key string, exact bool) []*limits {
	own := r.overrides[key]
	switch {
	case own == nil || own.pass && !exact:
		return []*limits{r.limits}
	case exact || own.ban || r.limits.ban:
		return []*limits{own}
	}
	return []*limits{own, r.limits}
}

// appendLimits adds the joint acquires of limits of a rule.
func (r *rule) appendLimits(all []jointAcquire, o *opener, a jointAcquire, l *limits) []jointAcquire {
	switch {
	case l.pass:
		return all
	case l.ban:
		a.settings = refusing(r.settings)
		a.limiter = o.limits(r, l).description.Of(banned(r.prefix))
		a.cost, a.err = 1, nil
		return append([]jointAcquire{a}, all...) // before any permits are taken
	case a.err != nil:
		return append(all, a)
	}
	members := o.members(r, l, a.key)
	for i, m := range members {
		a.members = guard.Joint{m}
		if i == 0 {
			all = append(all, a)
		} else if a.rules = nil; !all[len(all)-1].join(&a, o.cluster()) { // only the first one has the names
			all = append(all, a)
		}
	}
	if len(members) == 1 {
		limiter, _ := a.members.Limiter()
		all[len(all)-1].limiter = o.limits(r, l).description.Of(limiter) // described before, as most requests have one limiter
	}
	return all
}

// of reports whether an acquire belongs to a rule and a key.
func (a *jointAcquire) of(r *rule, key string) bool {
	return len(a.rules) > 0 && a.rules[0] == r.name && a.key == key && a.err == nil
}

type banned string

func (banned) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, nil
}

func (b banned) Name() string { return string(b) }

// joinAdjacent joins adjacent acquires where one call can decide both.
func joinAdjacent(all []jointAcquire, o *opener) []jointAcquire {
	var joined []jointAcquire
	for i := range all {
		if i == 0 || !joined[len(joined)-1].join(&all[i], o.cluster()) {
			joined = append(joined, all[i])
		}
	}
	for i := range joined {
		if a := &joined[i]; a.limiter == nil && a.err == nil {
			limiter, policies := a.members.Limiter()
			a.limiter = guard.Describe(policies...).Of(limiter)
		}
	}
	return joined
}

// join adds the limiters of another acquire to this one if one call can decide both. It reports
// whether it did. A Redisson limiter of both is taken from once.
func (a *jointAcquire) join(other *jointAcquire, cluster bool) bool {
	if a.members == nil || other.members == nil || a.settings != other.settings || a.cost != other.cost {
		return false
	}
	members := a.members
	for _, m := range other.members {
		var ok bool
		if members, ok = members.With(m, cluster); !ok {
			return false
		}
	}
	a.members, a.limiter = members, nil
	for _, name := range other.rules {
		if !slices.Contains(a.rules, name) {
			a.rules = append(slices.Clip(a.rules), name)
		}
	}
	return true
}
