package rules

import (
	"context"
	"net/http"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// evaluation is the limits of a request that decide together, by one call.
type evaluation struct {
	settings settings
	rules    []string
	key      string // of the first rule
	cost     int64
	err      error         // why there is no limiter
	limiter  guard.Limiter // with its description; nil until the members are joined
	members  []member      // nil if no others can join
}

// evaluateHTTP returns the evaluations of a request of HTTP, nil for none.
func (s *snapshot) evaluateHTTP(o *opener, r *http.Request) []evaluation {
	path, err := target.ReadURL(r.URL, s.allowSlashes)
	if err != nil && s.usesPaths {
		return []evaluation{{settings: refusing(settings{}), cost: 1, err: guard.Invalidf("rules: %v", err)}}
	}
	return s.evaluate(o, &s.http, ofHTTP(r, &s.address), path)
}

// evaluateGRPC returns the evaluations of a call of gRPC, nil for none.
func (s *snapshot) evaluateGRPC(ctx context.Context, o *opener, call grpclimit.Call) []evaluation {
	r := ofGRPC(ctx, call, &s.address)
	return s.evaluate(o, &s.grpc, r, target.Path{Text: r.method})
}

// evaluate returns the evaluations of a request. Each reading of its path has its rules, and its
// keys.
func (s *snapshot) evaluate(o *opener, rules *matcher, r *requestInfo, path target.Path) []evaluation {
	var all []evaluation
	path.All(func(reading string) bool {
		for _, m := range rules.find(r, reading, s.all) {
			if rule := s.rules[m.rule]; !rule.skip.skips(r, path) {
				all = rule.append(all, o, r, reading, m)
			}
		}
		return true
	})
	return joinAdjacent(all, o)
}

// append adds the evaluations of a rule: one, if its limiters share a slot. A rule has them once
// for each key.
func (r *rule) append(all []evaluation, o *opener, request *requestInfo, path string, m match) []evaluation {
	e := evaluation{settings: r.settings, rules: []string{r.name}, cost: 1, err: m.unknown}
	if e.err != nil {
		return append(all, e)
	}
	e.cost, e.err = r.cost.of(request)
	l := r.limits
	if r.key != nil && (!l.refuse || len(r.overrides) > 0) {
		var err error
		if e.key, err = keyOf(r.key, request, path, m.condition); err == nil && e.key == "" {
			err = errNoKey
		}
		if err != nil && !l.refuse {
			e.err = err
			return append(all, e)
		}
		if own := r.overrides[e.key]; own != nil {
			l = own
		}
	}
	switch {
	case l.pass || slices.ContainsFunc(all, func(other evaluation) bool { return other.of(r, e.key) }):
		return all
	case l.refuse:
		e.settings = refusing(r.settings)
		e.limiter = o.limits(r, l).describe(refusal(r.prefix))
		e.cost, e.err = 1, nil
		return append([]evaluation{e}, all...) // before any permits are taken
	case e.err != nil:
		return append(all, e)
	}
	members := o.members(r, l, e.key)
	for i, m := range members {
		e.members = []member{m}
		if i == 0 {
			all = append(all, e)
		} else if e.rules = nil; !all[len(all)-1].join(&e, o.cluster) { // only the first one has the names
			all = append(all, e)
		}
	}
	if len(members) == 1 {
		limiter, _ := join(members)
		all[len(all)-1].limiter = o.limits(r, l).describe(limiter) // described before, as most requests have one limiter
	}
	return all
}

// of reports whether an evaluation belongs to a rule and a key.
func (e *evaluation) of(r *rule, key string) bool {
	return len(e.rules) > 0 && e.rules[0] == r.name && e.key == key && e.err == nil
}

var errNoKey = guard.Invalidf("rules: the key of the request is empty")

// refusal is a limiter without permits. Its name is that of a rule.
type refusal string

func (refusal) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, nil
}

func (r refusal) Name() string { return string(r) }

// joinAdjacent joins adjacent evaluations that can decide atomically.
func joinAdjacent(all []evaluation, o *opener) []evaluation {
	var joined []evaluation
	for i := range all {
		if i == 0 || !joined[len(joined)-1].join(&all[i], o.cluster) {
			joined = append(joined, all[i])
		}
	}
	for i := range joined {
		if e := &joined[i]; e.limiter == nil && e.err == nil {
			limiter, policies := join(e.members)
			e.limiter = o.describe(policies)(limiter)
		}
	}
	return joined
}

// mostPolicies is the largest number of policies that decide atomically, see limit.New.
const mostPolicies = 10

// join adds the limiters of another evaluation to this one if both can decide atomically. It
// reports whether it did. A Redisson limiter of both is taken from once.
func (e *evaluation) join(other *evaluation, cluster bool) bool {
	if e.members == nil || other.members == nil || e.settings != other.settings ||
		e.cost != other.cost || e.cost < 0 {
		return false
	}
	if cluster && redisx.Tag(e.members[0].limiter.Name()) != redisx.Tag(other.members[0].limiter.Name()) {
		return false
	}
	members, policies := slices.Clone(e.members), 0
	for _, added := range other.members {
		same := func(m member) bool { return m.redisson && m.limiter.Name() == added.limiter.Name() }
		if !added.redisson || !slices.ContainsFunc(e.members, same) {
			members = append(members, added)
		}
	}
	for _, m := range members {
		policies += len(m.policies)
	}
	if policies > mostPolicies {
		return false
	}
	e.members, e.limiter = members, nil
	for _, name := range other.rules {
		if !slices.Contains(e.rules, name) {
			e.rules = append(slices.Clip(e.rules), name)
		}
	}
	return true
}
