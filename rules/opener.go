package rules

import (
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
)

// opener opens the limiters of requests.
type opener struct {
	protocol protocol
	client   *rratelimiter.Client
	cluster  bool
}

// protocol is HTTP or gRPC.
type protocol int

const (
	protocolHTTP protocol = iota
	protocolGRPC
)

// describe returns the function that describes limiters of some policies to a middleware.
func (k protocol) describe(policies []limit.Policy) func(guard.Limiter) guard.Limiter {
	if k == protocolGRPC {
		describe := grpclimit.Describe(policies...)
		return func(l guard.Limiter) guard.Limiter { return describe(l) }
	}
	describe := httplimit.Describe(policies...)
	return func(l guard.Limiter) guard.Limiter { return describe(l) }
}

// group is limiters that decide atomically.
type group struct {
	members  []member
	tag      string         // the part of the name that decides the slot
	policies []limit.Policy // of all members, named
}

// member is a limiter of a group.
type member struct {
	limiter  limit.Joinable
	shared   bool // of Redisson's layout
	policies []limit.Policy
}

func single(limiter limit.Joinable, shared bool, policies []limit.Policy) group {
	return group{[]member{{limiter, shared, policies}}, tagOf(limiter.Name()), policies}
}

var errNoKey = guard.Invalidf("rules: the key of the request is empty")

func newOpener(client *rratelimiter.Client, at protocol) *opener {
	c, err := inside.Open(client)
	return &opener{protocol: at, client: client, cluster: err == nil && c.Engine.Cluster()}
}

// groups opens the limiters of a rule for a key: one group, if all share a slot.
func (o *opener) groups(r *rule, l *limits, key string) []group {
	var groups []group
	described := l.described(o, r)
	policies := described.policies
	if own := len(l.policies); own > 0 {
		groups = append(groups, single(described.limiter(key), false, policies[:own]))
	}
	for i, shared := range l.redisson {
		at := len(l.policies) + i
		groups = append(groups, single(o.client.Limiter(shared.name), true, policies[at:at+1]))
	}
	kept := groups[:1]
	for _, g := range groups[1:] {
		if joined := kept[len(kept)-1].with(&g, o.cluster); joined != nil {
			kept[len(kept)-1] = *joined
		} else {
			kept = append(kept, g)
		}
	}
	return kept
}

// mostPolicies is the largest number of policies that decide atomically, see limit.New.
const mostPolicies = 10

// with joins two groups. It returns nil if they cannot decide atomically. A limiter in both groups
// is taken from once.
func (g *group) with(other *group, cluster bool) *group {
	if cluster && g.tag != other.tag {
		return nil
	}
	joined := &group{slices.Clone(g.members), g.tag, slices.Clone(g.policies)}
	for _, m := range other.members {
		if m.shared && slices.ContainsFunc(g.members,
			func(own member) bool { return own.shared && own.limiter.Name() == m.limiter.Name() }) {
			continue
		}
		joined.members = append(joined.members, m)
		joined.policies = append(joined.policies, m.policies...)
	}
	if len(joined.policies) > mostPolicies {
		return nil
	}
	return joined
}

// limiter returns one limiter for the group.
func (g *group) limiter() guard.Limiter {
	if len(g.members) == 1 {
		limiter, _ := g.members[0].limiter.(guard.Limiter) // both kinds implement it
		return limiter
	}
	all := make([]limit.Joinable, len(g.members))
	for i, m := range g.members {
		all[i] = m.limiter
	}
	return limit.Join(all...)
}

// tagOf returns the part of a name that decides its slot: the hash tag, or all of it.
func tagOf(name string) string {
	if open := strings.IndexByte(name, '{'); open >= 0 {
		if length := strings.IndexByte(name[open+1:], '}'); length > 0 {
			return name[open+1 : open+1+length]
		}
	}
	return name
}
