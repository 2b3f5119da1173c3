package guard

import (
	"sync/atomic"
	"time"
)

// Shared is the state of guards: what they know of Redis, what they have granted without it, and how many requests wait. Guards of
// one deadline can share it, and it outlives them.
type Shared struct {
	store *store
	own   *ownState
}

// ownState is the part of the state that does not depend on a deadline.
type ownState struct {
	local   buckets
	waiting atomic.Int64
}

// NewShared returns the state for guards of a deadline. The callback changed may be nil. It gets each change of the state of Redis
// in order, without a lock, and the error of the call after which Redis counts as down. The request that sees the
// change calls it, or if Redis answers again, the prober.
func NewShared(deadline time.Duration, changed func(up bool, err error)) *Shared {
	c := clock{time.Now()}
	return &Shared{
		&store{clock: c, patience: deadline, changed: changed},
		&ownState{local: buckets{clock: c}},
	}
}

// Sibling returns the state for guards of another deadline, which share the rest.
func (s *Shared) Sibling(deadline time.Duration) *Shared {
	return &Shared{&store{clock: clock{time.Now()}, patience: deadline, changed: s.store.changed}, s.own}
}

// Retire ends the reports of guards that were given up. If Redis is down for them, it is reported as up.
func (s *Shared) Retire() { s.store.retire() }

// Guard returns a guard with this state. At most maxWaiting requests of it wait at once, 0 means any number.
func (s *Shared) Guard(mode Mode, maxWaiting int) *Guard {
	return &Guard{mode: mode, deadline: s.store.patience, maxWaiting: int64(maxWaiting), Shared: s}
}

// New returns a guard with a state of its own, see [NewShared].
func New(mode Mode, deadline time.Duration, changed func(up bool, err error)) *Guard {
	return NewShared(deadline, changed).Guard(mode, 0)
}

// Sharing returns the state of a guard that shares it with others.
type Sharing func(deadline time.Duration, changed func(up bool, err error)) *Shared

// ShareHTTP returns an Option of package httplimit by which guards share their state. That package sets it.
var ShareHTTP func(Sharing) any

// ShareGRPC is ShareHTTP for package grpclimit.
var ShareGRPC func(Sharing) any

// enter counts a request among those that wait, unless the bound is reached. Each that entered has to leave.
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
