package limit

import (
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// member is one policy of a limiter.
type member struct {
	policy    Policy
	described *policy.Description
	settings  string   // all fields of the policy
	name      string   // that it was opened with
	keys      []string // one, but those of a limiter of Redisson's layout

	arguments []string // if they are the same in each call; else nil, and the policy has them

	redisson *inside.Limiter // of Redisson's layout, whose rate is in Redis; else nil
}

// types returns the type of each of its keys, as TYPE names it.
func (m member) types() []string {
	if m.redisson != nil {
		return m.redisson.Types
	}
	return []string{m.described.Type}
}

func isRedisson(m member) bool { return m.redisson != nil }

// has reports whether a member has a section.
func has(members []member, section string) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.has(section) })
}

// has reports whether the scripts of the policy have a section.
func (m member) has(section string) bool { return sections[m.described.Lua][section] != "" }

// takesPart reports whether a policy is part of the script of a call. Only release and pause leave
// those out that do without.
func (m member) takesPart(c call) bool { return c != release && c != pause || m.has(string(c)) }
