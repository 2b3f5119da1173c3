package ruleset

import (
	"sync"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
)

// opener opens the limiters of requests for one version of the file.
type opener struct {
	client  *rratelimiter.Client
	cluster bool
	opened  sync.Map // *limits to *openLimits
}

func newOpener(client *rratelimiter.Client) *opener {
	c, err := inside.Open(client)
	return &opener{client: client, cluster: err == nil && c.Engine.Cluster()}
}

// openLimits opens limiters of the same limits.
type openLimits struct {
	description *guard.Description
	limiter     func(key string) *limit.Limiter // of the policies
	redisson    []member
}

// limits returns what opens the limiters of a rule. Concurrent requests may each make one.
func (o *opener) limits(r *rule, l *limits) *openLimits {
	if opened, ok := o.opened.Load(l); ok {
		return opened.(*openLimits) //nolint:errcheck,forcetypeassert // it has nothing else
	}
	opened := &openLimits{description: guard.Describe(l.all()...)}
	if r.key == nil {
		all := limit.New(o.client, r.prefix, l.policies...)
		opened.limiter = func(string) *limit.Limiter { return all }
	} else {
		keyed := limit.NewKeyed(o.client, r.prefix, l.policies...)
		opened.limiter = func(key string) *limit.Limiter { return keyed.Limiter(guard.Key(key)) }
	}
	for _, shared := range l.redisson {
		var opts []rratelimiter.LimiterOption
		if shared.rate != nil { // it may expire, or be lost
			opts = append(opts, rratelimiter.InitialRate(*shared.rate))
		}
		limiter := o.client.Limiter(shared.name, opts...)
		opened.redisson = append(opened.redisson, member{limiter, true, []limit.Policy{shared.named}})
	}
	o.opened.Store(l, opened)
	return opened
}

// member is a limiter that one call may decide with others.
type member struct {
	limiter  limit.Joinable
	redisson bool
	policies []limit.Policy // named
}

// members opens the limiters of a rule for a key.
func (o *opener) members(r *rule, l *limits, key string) []member {
	opened := o.limits(r, l)
	if len(l.policies) == 0 {
		return opened.redisson
	}
	return append([]member{{opened.limiter(key), false, l.named}}, opened.redisson...)
}

// join returns one limiter for all members, and their policies.
func join(members []member) (guard.Limiter, []limit.Policy) {
	if len(members) == 1 {
		limiter, _ := members[0].limiter.(guard.Limiter) // both kinds implement it
		return limiter, members[0].policies
	}
	var limiters []limit.Joinable
	var policies []limit.Policy
	for _, m := range members {
		limiters, policies = append(limiters, m.limiter), append(policies, m.policies...)
	}
	return limit.Join(limiters...), policies
}
