package engine

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// release returns the unused permits of a lease to Redis.
type release func(context.Context) error

// runLater runs a release, if there is one, on a goroutine of its own. If it fails, the permits
// expire.
func (b release) runLater() {
	if b != nil {
		go func() { _ = b(Unattended(context.Background())) }()
	}
}

// runAll runs releases one after another, even if one ends its goroutine. If one fails, its permits
// expire.
func runAll(ctx context.Context, all []release) {
	if len(all) > 0 {
		defer runAll(ctx, all[1:])
		_ = all[0](Unattended(ctx))
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

// releaseFor revokes all leases if their permits and those that are free in Redis are together
// enough for a request that neither could grant alone. It returns the releases to run. The entry is
// locked.
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

// revoke ends all leases, and appends the releases to run.
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

// transfer is a lease that is being fetched or released. Flush waits for it.
type transfer struct {
	done chan struct{} // closed once the lease was released, or there was none
	err  error         // set before done is closed
}

// await returns a function that waits until the lease of a call in flight has arrived and was
// released, or nil if there is no such call. The leases were revoked before. The entry is locked.
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

// finishWith ends the transfer of a fetched lease: with the release of the lease, or with the error
// of the call.
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
