package guard

import (
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// sharesOf returns the bucket of each policy of a request, and its shape. It returns nil if a policy
// or the name of its limiter is unknown.
func sharesOf(q Request, share float64) ([]bucketKey, []shape) {
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

// memberNames returns the name of the limiter of each policy of a request, or nil if one is unknown.
// The limiters of a join have names of their own. A limiter with several policies has one name.
func memberNames(q Request) []string {
	names, ok := policy.MemberNames(q.Limiter)
	if !ok {
		names = []string{NameOf(q.Limiter)}
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
