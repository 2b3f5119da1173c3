package ruleset

import (
	"cmp"
	"sync"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// opener opens the limiters of requests for one version of the file.
type opener struct {
	client *rratelimiter.Client
	opened sync.Map // *limits to *openLimits
}

func newOpener(client *rratelimiter.Client) *opener { return &opener{client: client} }

// cluster reports whether Redis is a Redis Cluster.
func (o *opener) cluster() bool {
	c, err := o.client.Inside()
	return err == nil && c.Engine.Cluster()
}

// emptyKey is the key of an empty rest of a path, in names of limiters. No other key is encoded so.
const emptyKey = "%"

// openLimits opens limiters of the same limits.
type openLimits struct {
	description *guard.Description
	limiter     func(key string) *limit.Limiter // of the policies
	redisson    guard.Joint
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
		opened.limiter = func(key string) *limit.Limiter { return keyed.Limiter(cmp.Or(guard.Key(key), emptyKey)) }
	}
	for _, shared := range l.redisson {
		var opts []rratelimiter.LimiterOption
		if shared.rate != nil { // it may expire, or be lost
			opts = append(opts, rratelimiter.InitialRate(*shared.rate))
		}
		limiter := o.client.Limiter(shared.name, opts...)
		opened.redisson = append(opened.redisson,
			guard.Member{Limiter: limiter, Policies: []limit.Policy{shared.named}, Shared: true})
	}
	o.opened.Store(l, opened)
	return opened
}

// members opens the limiters of a rule for a key.
func (o *opener) members(r *rule, l *limits, key string) guard.Joint {
	opened := o.limits(r, l)
	if len(l.policies) == 0 {
		return opened.redisson
	}
	return append(guard.Joint{{Limiter: opened.limiter(key), Policies: l.policies}}, opened.redisson...)
}
