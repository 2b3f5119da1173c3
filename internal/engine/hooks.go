package engine

import (
	"context"
	"time"
)

// Leases, the denial cache and an Observer join a call here and nowhere else. Without any of them
// (Engine.hooked), a call runs nothing of this file.

// tryHooked is Try with leases, the denial cache and the report of the decision.
func (l *Limiter) tryHooked(ctx context.Context, ask Ask, result *Result) error {
	observation := l.Observe(ask.Most())
	err := l.TryUnobserved(ctx, ask, result)
	if result.Allowed {
		observation.permits = result.Granted
	}
	observation.Report(ctx, result.Allowed, result.From, err)
	return err
}

// TryUnobserved is Try without a report of the decision.
func (l *Limiter) TryUnobserved(ctx context.Context, ask Ask, result *Result) error {
	for first := true; ; first = false {
		if l.fromLease(ask, result) {
			return nil
		}
		if l.Engine.denials != nil {
			if cached, denied := l.deny(ask); denied {
				*result = cached
				return nil
			}
		}
		if err := l.ask(ctx, ask, result); err != nil {
			return err
		}
		releases := l.addLeased(ask, result, first)
		if releases == nil {
			return nil
		}
		runAll(ctx, releases) // if one fails, the next call shows what is free
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// hookDispatch plans the lease of a batch that is about to be sent. The entry is locked.
func (l *Limiter) hookDispatch(e *entry, b *Batch) {
	if e.queue == nil || b.queue != nil { // else free permits are for the waiters
		b.sent.changes = e.leases.plan(b)
	}
}

// hookSend records the state that a call starts from, and its begin.
func (l *Limiter) hookSend(b *Batch, now time.Time) {
	g := l.Engine
	b.sent.dated = now.Truncate(l.tick())
	b.sent.version = g.denials.version(l)
	g.observer.begin(l, b)
}

// hookAnswer stores the lease that a call has brought, and has a caller report the call. The answers are
// final and the entry, if there is one, is locked. It returns the release of a lease that must not be
// used.
func (l *Limiter) hookAnswer(e *entry, b *Batch) (unused release) {
	b.sent.call.finish(b.Lease.Granted, b.err)
	b.assignCall()
	if e == nil {
		return nil
	}
	unused = e.leases.store(b, b.err, b.sent.changes)
	if b.queue == nil && b.Lease.Granted > 0 && e.queue != nil {
		e.queue.wake() // its waiters are served from the lease first
	}
	return unused
}

// hookEnd ends the cached denials that count permits which a call has taken, and caches its own denial,
// before its callers ask again.
func (l *Limiter) hookEnd(b *Batch) {
	if g := l.Engine; g.denials != nil {
		if b.Granted+b.Lease.Granted > 0 {
			b.sent.version = g.denials.granted(l, b.sent.version)
		}
		l.remember(b)
	}
	if b.queue == nil {
		b.takeCall().reportAlone() // if no caller does
	}
}

// countForLease counts the demand of a request for the next lease. The entry is locked.
func (l *Limiter) countForLease(e *entry, r *Request) {
	l.ensureLeases(e, r.Permits)
	// A denial then reports the free permits, which together with the leased ones may be enough.
	r.Detail = r.Detail || e.leases.unused(time.Now()) > 0
}
