package guard

import (
	"sync"
	"sync/atomic"
	"time"
)

// Shared is the state of guards: whether Redis is up, the permits granted without Redis, and the
// number of waiters. Guards with the same deadline can share it, and it remains when they end.
type Shared struct {
	deadline time.Duration
	reports  *reports
	breakers sync.Map // node to *breaker
	retired  atomic.Bool
	own      *ownState
}

// ownState is the part of the state that does not depend on a deadline.
type ownState struct {
	local   buckets
	waiting atomic.Int64
}

// Changed is the callback of an outage: with the address of its node, "" if that is unknown, and with
// the error that began it.
type Changed = func(node string, up bool, err error)

// NewShared returns the state for guards with a deadline. The callback changed may be nil. It
// receives each change of the state of a node in order. No lock is held. The request that observes
// the change calls it, or the prober at the end of an outage.
func NewShared(deadline time.Duration, changed Changed) *Shared {
	return &Shared{deadline: deadline, reports: &reports{changed: changed},
		own: &ownState{local: buckets{clock: clock{time.Now()}}}}
}

// Sibling returns the state for guards with another deadline. It shares everything that does not
// depend on the deadline.
func (s *Shared) Sibling(deadline time.Duration) *Shared {
	return &Shared{deadline: deadline, reports: s.reports, own: s.own}
}

// Retire ends the reports of guards that are no longer used. If they reported Redis as down, Retire
// reports it as up.
func (s *Shared) Retire() {
	s.retired.Store(true)
	s.breakers.Range(func(_, b any) bool {
		b.(*breaker).retire() //nolint:errcheck,forcetypeassert // nothing else is there
		return true
	})
}

// Guard returns a guard with this state. maxWaiting bounds its requests that wait at once; 0 means
// no bound.
func (s *Shared) Guard(mode Mode, maxWaiting int) *Guard {
	return &Guard{mode: mode, deadline: s.deadline, maxWaiting: int64(maxWaiting), Shared: s}
}

// New returns a guard with a state of its own, see [NewShared].
func New(mode Mode, deadline time.Duration, changed Changed) *Guard {
	return NewShared(deadline, changed).Guard(mode, 0)
}

// Sharing returns the state of a guard that shares it with others.
type Sharing func(deadline time.Duration, changed Changed) *Shared

// HTTPOption returns an Option of package httplimit that changes the settings. That package sets it.
var HTTPOption func(change func(*Settings)) any

// GRPCOption is HTTPOption for package grpclimit.
var GRPCOption func(change func(*Settings)) any

// enter counts a request as a waiter, unless the bound is reached. Each enter needs a leave.
func (g *Guard) enter() bool {
	for {
		n := g.own.waiting.Load()
		if g.maxWaiting > 0 && n >= g.maxWaiting {
			return false
		}
		if g.own.waiting.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *Guard) leave() { g.own.waiting.Add(-1) }
