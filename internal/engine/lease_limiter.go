package engine

import (
	"context"
	"time"
)

// fromLease answers a request from the leases of this process, if it can, and fetches the next
// lease in time. While the limiter has waiters, it serves no other caller: waiters come first.
func (l *Limiter) fromLease(ask Ask, result *Result) (ok bool) {
	if !l.leases() {
		return false
	}
	e := l.Engine.registry.lockExisting(l.ID)
	if e == nil {
		return false
	}
	fetch := false
	if e.leases != nil && e.queue == nil {
		ok, fetch = e.leases.take(ask, result)
	}
	fetch = fetch && l.Engine.reserveCall(e)
	if fetch && e.first == nil {
		e.push(l.Engine.newBatch())
	}
	e.mu.Unlock()
	if fetch {
		l.Engine.workers.run(task{l, context.Background(), e, nil})
	}
	return ok
}

// addLeased adds the leased permits to a result of Redis: they are free, too. Together with the permits
// that are free in Redis, they may be enough for a denied request. Then, if it may, addLeased revokes
// the leases, and returns the releases to run before the request is repeated.
func (l *Limiter) addLeased(ask Ask, result *Result, revokes bool) []release {
	counts := ask.UpTo > 0 || ask.Detail
	if !l.leases() || result.Allowed && !counts {
		return nil
	}
	e := l.Engine.registry.lockExisting(l.ID)
	if e == nil {
		return nil
	}
	defer l.Engine.registry.unlockEntry(e)
	if counts && e.leases != nil && e.queue == nil {
		e.leases.addTo(result, ask)
	}
	if result.Allowed || ask.UpTo > 0 || !revokes {
		return nil
	}
	return e.leases.releaseFor(ask.Permits)
}

// ensureLeases gives the entry a set of leases and counts the demand. The entry is locked.
func (l *Limiter) ensureLeases(e *entry, permits int64) {
	now := time.Now()
	if e.leases == nil {
		h := &leaseSet{limiter: l, span: l.Engine.lease, spanBegan: now}
		h.timer = time.AfterFunc(l.Engine.lease, func() { l.expireLeases(e, h) })
		e.leases = h
		l.Engine.dependents.add(l)
	}
	e.leases.countDemand(now, permits)
}

// expireLeases releases the unused permits of expired leases. Without demand it removes the lease
// set.
func (l *Limiter) expireLeases(e *entry, h *leaseSet) {
	e.mu.Lock()
	if e.leases != h {
		e.mu.Unlock()
		return
	}
	now := time.Now()
	var releases []release
	kept := h.leases[:0]
	for i := range h.leases {
		if s := h.leases[i]; !s.expired(now) && s.unused > 0 {
			kept = append(kept, s)
		} else if unused := h.release(&s, nil); unused != nil {
			releases = append(releases, unused)
		}
	}
	clear(h.leases[len(kept):])
	h.leases = kept
	if len(kept) > 0 || h.fetch != nil || h.demand(now) > 0 {
		h.timer.Reset(h.next(now))
	} else {
		e.leases = nil
		l.Engine.dependents.remove(l)
	}
	l.Engine.registry.unlockEntry(e)
	runAll(context.Background(), releases)
}
