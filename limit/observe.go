package limit

import (
	"slices"
	"strings"
)

// policyNames is the kinds of policies as an observer is told them.
var policyNames = map[string]string{
	"calendar": "calendar", "fixedwindow": "fixed_window", "leakybucket": "leaky_bucket", "redisson": "redisson", "slidinglog": "sliding_log",
	"slidingwindow": "sliding_window", "smooth": "smooth", "tokenbucket": "token_bucket",
}

// policyOf names what members limit by: each kind once, by the alphabet, so that there are few such
// names.
func policyOf(members []member) string {
	if len(members) == 1 {
		return policyNames[members[0].policy.kind()]
	}
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = policyNames[m.policy.kind()]
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "+")
}
