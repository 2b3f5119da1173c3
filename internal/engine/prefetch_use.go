package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// fromPrefetch answers a request from the prefetches of this process, if it can, and fetches the next
// prefetch in time. While the limiter has waiters, it serves no other caller: waiters come first.
func (l *Limiter) fromPrefetch(ask Ask, result *Result) (ok bool) {
	if !l.prefetches() {
		return false
	}
	e := l.Engine.registry.lockExisting(l.ID)
	if e == nil {
		return false
	}
	fetch := false
	if e.prefetches != nil && e.queue == nil {
		ok, fetch = e.prefetches.take(ask, result)
	}
	fetch = fetch && l.Engine.reserveCall(e)
	if fetch && e.first == nil {
		e.push(l.Engine.batches.Get().(*Batch)) //nolint:errcheck,forcetypeassert // nothing else is there
	}
	e.mu.Unlock()
	if fetch {
		go l.sendBatches(context.Background(), e, false)
	}
	return ok
}

// addPrefetched adds the prefetched permits to a result of Redis: they are free, too. Together with the permits
// that are free in Redis, they may be enough for a denied request. Then, if it may, addPrefetched revokes
// the prefetches, and returns the releases to run before the request is repeated.
func (l *Limiter) addPrefetched(ask Ask, result *Result, mayRevoke bool) []release {
	counts := ask.UpTo > 0 || ask.Detail
	if !l.prefetches() || result.Allowed && !counts {
		return nil
	}
	e := l.Engine.registry.lockExisting(l.ID)
	if e == nil {
		return nil
	}
	defer l.Engine.registry.unlockEntry(e)
	if counts && e.prefetches != nil && e.queue == nil {
		e.prefetches.addTo(result, ask)
	}
	if result.Allowed || ask.UpTo > 0 || !mayRevoke {
		return nil
	}
	return e.prefetches.revokeFor(ask.Permits)
}

// ensureLeases gives the entry a set of prefetches and counts the demand. The entry is locked.
func (l *Limiter) ensureLeases(e *entry, permits int64) {
	now := time.Now()
	if e.prefetches == nil {
		h := &prefetchSet{limiter: l, span: l.Engine.prefetch, spanBegan: now}
		h.timer = time.AfterFunc(l.Engine.prefetch, func() { l.expireLeases(e, h) })
		e.prefetches = h
		l.Engine.dependents.add(l)
	}
	e.prefetches.countDemand(now, permits)
}

// expireLeases releases the unused permits of expired prefetches. Without demand it removes the prefetch
// set.
func (l *Limiter) expireLeases(e *entry, h *prefetchSet) {
	e.mu.Lock()
	if e.prefetches != h {
		e.mu.Unlock()
		return
	}
	now := time.Now()
	var releases []release
	kept := h.prefetches[:0]
	for i := range h.prefetches {
		if s := h.prefetches[i]; !s.expired(now) && s.unused > 0 {
			kept = append(kept, s)
		} else if discarded := h.release(&s, nil); discarded != nil {
			releases = append(releases, discarded)
		}
	}
	clear(h.prefetches[len(kept):])
	h.prefetches = kept
	if len(kept) > 0 || h.fetch != nil || h.demand(now) > 0 {
		h.timer.Reset(h.next(now))
	} else {
		e.prefetches = nil
		l.Engine.dependents.remove(l)
	}
	l.Engine.registry.unlockEntry(e)
	runAll(context.Background(), releases)
}

// release returns the unused permits of a prefetch to Redis.
type release func(context.Context)

// runLater runs a release, if there is one, on a goroutine of its own. If it fails, the permits
// expire.
func (r release) runLater() {
	if r != nil {
		go r(Unattended(context.Background()))
	}
}

// runAll runs releases, and waits for them until ctx is done, which that of Detach never is, but at most
// longTransfer. The releases go on. If one fails, its permits expire.
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

// transfer is a prefetch that is being fetched or released. Flush waits for it, and a change of its
// limiter.
type transfer struct {
	keys []string      // that the limiter depends on
	done chan struct{} // closed once the prefetch is stored or released, or there was none
	err  error         // set before done is closed
}

func (h *prefetchSet) beginTransfer() *transfer {
	t := &transfer{keys: h.limiter.DependsOn, done: make(chan struct{})}
	h.limiter.Engine.transfers.Store(t, nil)
	return t
}

func (h *prefetchSet) endTransfer(t *transfer, err error) {
	t.err = err
	h.limiter.Engine.transfers.Delete(t)
	close(t.done)
}

// longTransfer is how long others wait for a prefetch in transit: about as long as a call whose slot
// moves. A release goes on after that. If only the link is slow, a call that is sent then is
// behind it on the connection.
const longTransfer = 250 * time.Millisecond

// awaitTransfers waits for prefetches in transit of limiters that depend on one of these keys, until late
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

// release returns the release of a prefetch. It ends the transfer that has fetched the prefetch, or a new
// one if that is nil.
func (h *prefetchSet) release(s *activePrefetch, t *transfer) release {
	permits, refund := s.unused, s.Refund
	s.unused = 0
	if permits == 0 {
		return nil
	}
	if t == nil {
		t = h.beginTransfer()
	}
	return func(ctx context.Context) {
		err := redisx.ErrNoReply // until it returns
		defer func() { h.endTransfer(t, err) }()
		err = refund(ctx, permits)
	}
}

// revokeFor revokes all prefetches if their permits and those that are free in Redis are together
// enough for a request that neither could grant alone. It returns the releases to run. The entry is
// locked.
func (h *prefetchSet) revokeFor(permits int64) []release {
	if h == nil || len(h.prefetches) == 0 {
		return nil
	}
	left := h.unused(time.Now())
	if left == 0 || permits > h.free+left {
		return nil
	}
	return h.revoke(nil)
}

// revoke ends all prefetches, and appends the releases to run.
func (h *prefetchSet) revoke(releases []release) []release {
	if h == nil {
		return releases
	}
	h.revokes++
	for i := range h.prefetches {
		if discarded := h.release(&h.prefetches[i], nil); discarded != nil {
			releases = append(releases, discarded)
		}
	}
	clear(h.prefetches)
	h.prefetches = h.prefetches[:0]
	return releases
}

// Flush releases all prefetches, including those of calls in flight, and waits for releases and for returns of what
// requests held that have begun before. It returns the first error.
func (g *Engine) Flush(ctx context.Context) error {
	_, err := Detach(ctx, func(ctx context.Context) (struct{}, error) {
		releases := g.revoke(g.registry.ids())
		var transfers []*transfer
		for t := range g.transfers.Range {
			transfers = append(transfers, t.(*transfer)) //nolint:errcheck,forcetypeassert // nothing else is there
		}
		for _, run := range releases {
			run.runLater()
		}
		failed := g.Keeper.Flush(ctx)
		for _, t := range transfers {
			<-t.done
			failed = cmp.Or(failed, t.err)
		}
		return struct{}{}, failed
	})
	return err
}
