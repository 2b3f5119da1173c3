package engine

import "context"

// complete gives the callers of a batch their answers, or the error of the call. It reports whether
// another batch is to be sent. It does not wait.
func (l *Limiter) complete(ctx context.Context, e *entry, b *Batch, err error) (again bool) {
	b.sent.call.finish(b.Lease.Granted, err)
	unused, again := l.answer(e, b, err)
	l.wake(b)
	l.releaseUnused(ctx, b, unused)
	b.takeCall().reportAlone() // if no caller does
	b.clear()
	l.Engine.batches.Put(b)
	return again
}

// answer makes the answers of a batch final, with the entry locked. It returns the release of a lease
// that must not be used, and whether another batch is to be sent.
func (l *Limiter) answer(e *entry, b *Batch, err error) (unused release, again bool) {
	e.mu.Lock()
	defer l.Engine.registry.unlockEntry(e)
	for _, r := range b.Requests {
		if r.deliver(err) {
			b.Lost = append(b.Lost, r)
		}
	}
	b.count(err)
	l.addReceipts(b)
	b.assignCall()
	unused = e.leases.store(b, err, b.sent.changes)
	if b.Lease.Granted > 0 && e.queue != nil {
		e.queue.wake() // its waiters are served from the lease first
	}
	again = e.first != nil && !e.dispatching
	if again {
		e.dispatching = true
	} else if e.calls--; e.calls == 0 {
		l.Engine.calling.Add(-1)
	}
	return unused, again
}

// wake wakes the callers of a batch. From then on the requests belong to them.
func (l *Limiter) wake(b *Batch) {
	l.updateDenials(b)
	clear(b.Requests)
	if b.answered != nil {
		close(b.answered)
	}
}

// updateDenials ends the cached denials that count permits which a call has taken, and caches its own
// denial, before its callers ask again.
func (l *Limiter) updateDenials(b *Batch) {
	if b.Granted+b.Lease.Granted > 0 {
		b.sent.version = l.Engine.denials.granted(l, b.sent.version)
	}
	if l.Engine.denials != nil {
		l.remember(b)
	}
}

// releaseUnused releases, in the background, the permits that no caller and no lease can use.
func (l *Limiter) releaseUnused(ctx context.Context, b *Batch, unused release) {
	l.releaseLost(ctx, b)
	unused.runLater()
}
