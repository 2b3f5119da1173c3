package engine

import (
	"context"
	"time"
)

// giveBack gives back what is left of a lease.
type release func(context.Context) error

// later gives back what nobody waits for, if there is anything: else it leaves the window.
func (b release) runLater() {
	if b != nil {
		go func() { _ = b(Unattended(context.Background())) }()
	}
}

// giveBack is what gives back the permits that are left of a lease. It is to be called, and until it has done so Flush waits for it.
func (h *leaseSet) release(s *activeLease) release {
	left, back := s.unused, s.Return
	s.unused = 0
	if left == 0 {
		return nil
	}
	all, going := h.returns, &transfer{done: make(chan struct{})}
	all.Store(going, nil)
	return func(ctx context.Context) error {
		going.err = errBroken // until it returns
		defer func() {
			all.Delete(going)
			close(going.done)
		}()
		going.err = back(ctx, left)
		return going.err
	}
}

// spare gives back what is leased where a request could be served of that and what Redis has, but of neither alone. The
// reply that denied it reported what Redis has. The entry is locked.
func (h *leaseSet) releaseFor(permits int64) []release {
	if h == nil || len(h.leases) == 0 {
		return nil
	}
	left := h.unused(time.Now())
	if left == 0 || permits > h.free+left {
		return nil
	}
	return h.revoke(nil)
}

// recall is that of one limiter.
func (h *leaseSet) revoke(backs []release) []release {
	if h == nil {
		return backs
	}
	h.changes++
	for i := range h.leases {
		if back := h.release(&h.leases[i]); back != nil {
			backs = append(backs, back)
		}
	}
	clear(h.leases)
	h.leases = h.leases[:0]
	return backs
}

// arrival is of a lease that is on its way, here or back, for Flush.
type transfer struct {
	done chan struct{} // closed once the lease has gone back, or there was none
	err  error         // set before
}

// await is what waits until a lease that is on its way has come and gone back; nil where none is. What is leased was recalled. The
// entry is locked.
func (h *leaseSet) await() release {
	if h == nil || !h.fetching {
		return nil
	}
	if h.awaited == nil {
		h.awaited = &transfer{done: make(chan struct{})}
	}
	a := h.awaited
	return func(context.Context) error {
		<-a.done
		return a.err
	}
}

// of is what gives back what came, and tells who waits; err is of the call that was to bring it.
func (a *transfer) finishWith(came release, err error) release {
	switch {
	case a == nil:
		return came
	case came == nil:
		a.err = err
		close(a.done)
		return nil
	}
	return func(ctx context.Context) error {
		defer close(a.done)
		a.err = came(ctx)
		return a.err
	}
}
