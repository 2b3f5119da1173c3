package limit

import (
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// policyOf names the kinds of the members, each once and sorted, so that there are few such names.
func policyOf(members []member) string {
	if len(members) == 1 {
		return nameOf(members[0].policy)
	}
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = nameOf(m.policy)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "+")
}

func nameOf(p Policy) string {
	if d, ok := policy.Of(p); ok {
		return d.Name
	}
	return p.kind() // redisson
}
