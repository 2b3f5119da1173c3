package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// release returns the unused permits of a lease to Redis.
type release func(context.Context)

// runLater runs a release, if there is one, on a goroutine of its own. If it fails, the permits
// expire.
func (r release) runLater() {
	if r != nil {
		go r(Unattended(context.Background()))
	}
}

// runAll runs releases, and waits for them until ctx ends, but no longer than for other leases in
// transit. The releases go on. If one fails, its permits expire.
func runAll(ctx context.Context, all []release) {
	done := make(chan struct{}, len(all))
	for _, run := range all {
		go func() {
			defer func() { done <- struct{}{} }()
			run(Unattended(ctx))
		}()
	}
	late := time.After(longTransfer)
	for range all {
		select {
		case <-done:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// transfer is a lease that is being fetched or released. Flush waits for it, and a change of its
// limiter.
type transfer struct {
	keys []string      // that the limiter depends on
	done chan struct{} // closed once the lease is stored or released, or there was none
	err  error         // set before done is closed
}

func (h *leaseSet) begin() *transfer {
	t := &transfer{keys: h.limiter.DependsOn, done: make(chan struct{})}
	h.limiter.Engine.transfers.Store(t, nil)
	return t
}

func (h *leaseSet) end(t *transfer, err error) {
	t.err = err
	h.limiter.Engine.transfers.Delete(t)
	close(t.done)
}

// longTransfer is how long others wait for a lease in transit: about as long as a call whose slot
// moves. A release goes on after that. If only the link is slow, a call that is sent then is
// behind it on the connection.
const longTransfer = 250 * time.Millisecond

// awaitTransfers waits for leases in transit of limiters that depend on one of these keys, until late
// is closed.
func (g *Engine) awaitTransfers(keys []string, late <-chan struct{}) {
	for found := range g.transfers.Range {
		t := found.(*transfer) //nolint:errcheck,forcetypeassert // nothing else is there
		if !slices.ContainsFunc(t.keys, func(key string) bool { return slices.Contains(keys, key) }) {
			continue
		}
		select {
		case <-t.done:
		case <-late:
			return
		}
	}
}

// changing counts the changes in flight by key. Meanwhile limiters that depend on the key lease
// nothing.
type changing struct {
	mu    sync.Mutex
	calls map[string]int
}

// count changes the number of changes in flight.
func (c *changing) count(keys []string, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[string]int)
	}
	for _, key := range keys {
		if c.calls[key] += change; c.calls[key] == 0 {
			delete(c.calls, key)
		}
	}
}

// any reports whether a change of one of these keys is in flight.
func (c *changing) any(keys []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(keys, func(key string) bool { return c.calls[key] > 0 })
}

// release returns the release of a lease. It ends the transfer that has fetched the lease, or a new
// one if that is nil.
func (h *leaseSet) release(s *activeLease, t *transfer) release {
	permits, refund := s.unused, s.Return
	s.unused = 0
	if permits == 0 {
		return nil
	}
	if t == nil {
		t = h.begin()
	}
	return func(ctx context.Context) {
		err := redisx.ErrNoReply // until it returns
		defer func() { h.end(t, err) }()
		err = refund(ctx, permits)
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
func (h *leaseSet) revoke(releases []release) []release {
	if h == nil {
		return releases
	}
	h.changes++
	for i := range h.leases {
		if unused := h.release(&h.leases[i], nil); unused != nil {
			releases = append(releases, unused)
		}
	}
	clear(h.leases)
	h.leases = h.leases[:0]
	return releases
}
