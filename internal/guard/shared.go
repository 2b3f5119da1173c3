package guard

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Shared is the state of guards: whether Redis is up, the permits granted without Redis, and the
// number of waiters. Guards can share it, and it remains when they end.
type Shared struct {
	deadline atomic.Int64 // nanoseconds
	reports  *reports
	breakers sync.Map // node to *breaker
	local    buckets
	waiting  atomic.Int64
}

// Changed is the callback of an outage: with the address of its node, "" if that is unknown, and with
// the error that began it.
type Changed = func(node string, up bool, err error)

// NewShared returns the state for guards with a deadline. The callback changed may be nil. It
// receives each change of the state of a node in order. No lock is held. The request that observes
// the change calls it, or the prober at the end of an outage.
func NewShared(deadline time.Duration, changed Changed) *Shared {
	s := &Shared{reports: &reports{changed: changed}, local: buckets{clock: clock{time.Now()}}}
	s.SetDeadline(deadline)
	return s
}

// SetDeadline sets the deadline of probes, and of the guards that Guard returns from now on.
func (s *Shared) SetDeadline(d time.Duration) { s.deadline.Store(int64(d)) }

// Guard returns a guard with this state. maxWaiting bounds its requests that wait at once; 0 means
// no bound.
func (s *Shared) Guard(mode limit.FailureMode, maxWaiting int) *Guard {
	return &Guard{mode: mode, deadline: time.Duration(s.deadline.Load()), maxWaiting: int64(maxWaiting), Shared: s}
}

// New returns a guard with a state of its own, see [NewShared].
func New(mode limit.FailureMode, deadline time.Duration, changed Changed) *Guard {
	return NewShared(deadline, changed).Guard(mode, 0)
}

// Sharing returns the state of a guard that shares it with others.
type Sharing func(deadline time.Duration, changed Changed) *Shared

// enter counts a request as a waiter, unless the bound is reached. Each enter needs a leave.
func (g *Guard) enter() bool {
	for {
		n := g.waiting.Load()
		if g.maxWaiting > 0 && n >= g.maxWaiting {
			return false
		}
		if g.waiting.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *Guard) leave() { g.waiting.Add(-1) }
