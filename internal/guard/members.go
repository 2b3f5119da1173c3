package guard

import (
	"slices"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
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
// its method Policies, or the initial rate of a *rratelimiter.Limiter.
func ownPolicies(l Limiter) []limit.Policy {
	switch l := unwrap(l).(type) {
	case interface{ Policies() []limit.Policy }:
		return l.Policies()
	case *rratelimiter.Limiter:
		opened, err := inside.OpenLimiter(l)
		if err != nil || len(opened.Initial) == 0 {
			return nil
		}
		args := opened.Initial[0].Args // the permits and the milliseconds come first
		permits, _ := strconv.ParseInt(args[0], 10, 64)
		millis, _ := strconv.ParseInt(args[1], 10, 64)
		return []limit.Policy{limit.SlidingLog{Permits: permits, Interval: time.Duration(millis) * time.Millisecond}}
	}
	return nil
}

// memberNames returns the name of the limiter of each policy of a request, or nil if one is unknown.
// The limiters of a join have names of their own. A limiter with several policies has one name.
func memberNames(q Request) []string {
	names, ok := policy.MemberNames(q.Limiter)
	if !ok {
		names = []string{q.Limiter.Name()}
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
