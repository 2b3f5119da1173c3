package rls

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// recent is limiters that were used lately: to open one is a good part of what a decision costs this process beside gRPC. It has two
// places for each of some ten thousand hashes of names, however many names there are.
type recent struct {
	seed   maphash.Seed
	places [16384][2]atomic.Pointer[opened] // who came last is first
}

// opened is a limiter, and what it was opened for.
type opened struct {
	limiter  *limit.Limiter
	limits   []*oneLimit // of the rule; a reload makes others
	policies []limit.Policy
	room     [1]limit.Policy // of policies: mostly there is one
}

// open gives what counts for a descriptor.
func (c *recent) open(client *rratelimiter.Client, a *asked) *opened {
	places := &c.places[maphash.String(c.seed, a.name)%uint64(len(c.places))]
	for i := range places {
		if o := places[i].Load(); o != nil && o.limiter.Name() == a.name && len(o.limits) == len(a.limits) && sameLimits(o.limits, a.limits) {
			return o
		}
	}
	o := &opened{limits: a.limits}
	o.policies = o.room[:0]
	for _, one := range a.limits {
		o.policies = append(o.policies, one.budget.policy)
	}
	o.limiter = limit.New(client, a.name, o.policies...)
	if a.rule != nil { // a limit that a request brings along is another one the next time
		places[1].Store(places[0].Swap(o))
	}
	return o
}

func sameLimits(a, b []*oneLimit) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
