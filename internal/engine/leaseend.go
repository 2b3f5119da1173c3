package engine

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// release returns the permits that a lease has left to Redis.
type release func(context.Context) error

// runLater runs a release, if there is one, on a goroutine of its own. If it fails, the permits return when they leave the window.
func (b release) runLater() {
	if b != nil {
		go func() { _ = b(Unattended(context.Background())) }()
	}
}

// runAll runs releases one after another, also those behind one that ends its goroutine. If one
// fails, its permits return when they expire.
func runAll(ctx context.Context, backs []release) {
	if len(backs) > 0 {
		defer runAll(ctx, backs[1:])
		_ = backs[0](Unattended(ctx))
	}
}

// release returns the release of a lease. Flush waits until the caller has run it.
func (h *leaseSet) release(s *activeLease) release {
	left, back := s.unused, s.Return
	s.unused = 0
	if left == 0 {
		return nil
	}
	all, going := h.returns, &transfer{done: make(chan struct{})}
	all.Store(going, nil)
	return func(ctx context.Context) error {
		going.err = redisx.ErrNoReply // until it returns
		defer func() {
			all.Delete(going)
			close(going.done)
		}()
		going.err = back(ctx, left)
		return going.err
	}
}

// releaseFor releases all leases if a request could be granted by these and the permits at Redis together, but by neither alone. The
// last reply reported what Redis has. The entry is locked.
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

// revoke takes all leases from their callers, and appends the releases to run.
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

// transfer is a lease that is on its way from or to Redis. Flush waits for it.
type transfer struct {
	done chan struct{} // closed once the lease has gone back, or there was none
	err  error         // set before
}

// await returns what waits until a lease that is on its way has come and was released, or nil if there is none. The leases were
// revoked before. The entry is locked.
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

// finishWith ends the transfer of a lease from Redis: with the release of what came, if anything, or with the error of the call.
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
