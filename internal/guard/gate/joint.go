package gate

// The limiters that one call of Redis decides.

import (
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Member is a limiter that one call of Redis may decide with others.
type Member struct {
	Limiter  limit.Joinable
	Policies []limit.Policy // of the limiter
	// Once permits several members of one limiter, from which the call takes once.
	Once bool
}

// Joint is members that one call decides: all take their permits, or none does.
type Joint []Member

// With returns a Joint with one more member. It returns false if one call cannot decide all: if they
// have too many policies, a limiter is there twice, or on a cluster, they have different slots.
func (j Joint) With(m Member, cluster bool) (Joint, bool) {
	policies := len(m.Policies)
	for _, other := range j {
		name, added := other.Limiter.Name(), m.Limiter.Name()
		switch {
		case cluster && redisx.Tag(name) != redisx.Tag(added):
			return j, false
		case name == added && other.Once == m.Once:
			return j, m.Once
		}
		policies += len(other.Policies)
	}
	if policies > policy.MaxJoined {
		return j, false
	}
	return append(slices.Clip(j), m), true
}

// Limiter returns one limiter for all members, and their policies.
func (j Joint) Limiter() (limit.Joinable, []limit.Policy) {
	if len(j) == 1 {
		return j[0].Limiter, j[0].Policies
	}
	var limiters []limit.Joinable
	var policies []limit.Policy
	for _, m := range j {
		limiters, policies = append(limiters, m.Limiter), append(policies, m.Policies...)
	}
	return limit.Join(limiters...), policies
}
