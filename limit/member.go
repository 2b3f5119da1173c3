package limit

import (
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// member is one policy of a limiter.
type member struct {
	policy   Policy
	settings string   // all fields of the policy
	suffix   string   // of its key
	name     string   // that it was opened with
	keys     []string // one, but those of a limiter of Redisson's layout

	arguments []string // of the policy, if they are the same in each call; else nil

	redisson *inside.Limiter // of Redisson's layout, whose rate is in Redis; else nil
}

func isRedisson(m member) bool { return m.redisson != nil }

// canLease reports whether permits of all members can be leased.
func canLease(members []member) bool {
	return !slices.ContainsFunc(members, func(m member) bool { return !m.has("lease") })
}

// has reports whether a member has a section.
func has(members []member, section string) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.has(section) })
}

// has reports whether the scripts of the policy have a section.
func (m member) has(section string) bool { return sections[m.policy.kind()][section] != "" }

// takesPart reports whether a policy is part of the script of a call. Only release and pause leave
// those out that do without.
func (m member) takesPart(c call) bool { return c != release && c != pause || m.has(string(c)) }
