package guard

import (
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// sharesOf returns the bucket of each policy of a request, and its shape. It returns nil if a policy
// or the name of its limiter is unknown.
func sharesOf(q Request, share float64) ([]bucketKey, []shape) {
	if len(q.Policies) == 0 {
		q.Policies = ownPolicies(q.Limiter)
	}
	names := memberNames(q)
	if names == nil {
		return nil, nil
	}
	keys, shapes := make([]bucketKey, len(names)), make([]shape, len(names))
	for i, p := range q.Policies {
		s, ok := shapeOf(p, share)
		if !ok {
			return nil, nil
		}
		d, _ := policy.Of(p)
		keys[i], shapes[i] = bucketKey{names[i], d.Key}, s
	}
	return keys, shapes
}

// ownPolicies returns the policies that a limiter was opened with, nil for one that is unknown: those of
// its method Policies, and the initial rate of each *rratelimiter.Limiter.
func ownPolicies(l Limiter) (all []limit.Policy) {
	l = unwrap(l)
	if l, ok := l.(interface{ Policies() []limit.Policy }); ok {
		all = slices.Clone(l.Policies())
	}
	members, _ := policy.Members(l)
	for i, m := range members {
		if i == len(all) {
			all = append(all, nil)
		}
		if initial, ok := m.Initial.(limit.Policy); ok {
			all[i] = initial
		}
	}
	return all
}

// memberNames returns the name of the limiter of each policy of a request, or nil if one is unknown.
// The limiters of a join have names of their own. A limiter with several policies has one name.
func memberNames(q Request) []string {
	members, ok := policy.Members(q.Limiter)
	if !ok {
		members = []policy.Member{{Name: q.Limiter.Name()}}
	}
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	switch {
	case len(q.Policies) == 0 || len(names) == 0 || slices.Contains(names, ""):
		return nil
	case len(names) == len(q.Policies):
		return names
	case len(slices.Compact(names)) > 1: // a policy of a join is missing
		return nil
	}
	return slices.Repeat(names[:1], len(q.Policies))
}
