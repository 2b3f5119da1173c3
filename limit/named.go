package limit

import (
	"fmt"
	"strings"
)

// Named gives a policy a name, which headers and statuses show to clients. Without it, the name of a
// policy is its window, such as second, minute, day or 10s, or its kind: bucket, leaky, smooth. The
// name changes nothing in Redis.
//
// Named panics if the name is empty or not printable ASCII.
func Named(name string, policy Policy) Policy {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		panic(fmt.Sprintf("limit: Named: the name %q of a policy is empty or not printable ASCII", name))
	}
	if n, ok := policy.(named); ok {
		policy = n.Policy
	}
	return named{policy, name}
}

// named is a policy with a name. The rest of this package knows policies without names.
type named struct {
	Policy
	name string
}

// Named returns the parts, for package policy.
func (n named) Named() (name string, policy any) { return n.name, n.Policy }

// Policies returns the policies with which the limiter was opened, in order, with their names. The
// middleware describes them to clients. The rate of a *rratelimiter.Limiter of a [Join] is nil, since
// it is in Redis. An invalid limiter has none.
func (l *Limiter) Policies() []Policy {
	all := make([]Policy, len(l.wire.members))
	for i, m := range l.wire.members {
		switch {
		case m.redisson != nil:
		case m.described.Shown != "":
			all[i] = named{m.policy, m.described.Shown}
		default:
			all[i] = m.policy
		}
	}
	return all
}
