package engine

import (
	"context"
	"time"
)

// Prefetches, the denial cache and an Observer join a call by the functions of this file. Without any of them
// Try and Wait run none of these: Engine.hooked guards the places that call them.

// tryHooked is Try with prefetches, the denial cache and the report of the decision.
func (l *Limiter) tryHooked(ctx context.Context, ask Ask, result *Result) error {
	observation, reported := l.Observe(ask.Most()), false
	defer result.returnUnless(&reported)
	err := l.tryUnobserved(ctx, ask, result)
	if result.Allowed {
		observation.permits = result.Granted
	}
	observation.Report(ctx, result.Allowed, result.From, err)
	reported = true
	return err
}

// returnUnless returns what a call holds, unless it was reported: a hook has panicked, and the caller does not get the
// result.
func (r *Result) returnUnless(reported *bool) {
	if !*reported {
		r.Hold.Return()
	}
}

// tryUnobserved is Try without a report of the decision.
func (l *Limiter) tryUnobserved(ctx context.Context, ask Ask, result *Result) error {
	for mayRevoke := true; ; mayRevoke = false { // at most twice
		if l.fromPrefetch(ask, result) {
			return nil
		}
		if l.Engine.denials != nil {
			if cached, denied := l.deny(ask); denied {
				*result = cached
				return nil
			}
		}
		var err error
		if l.prefetches() {
			err = l.share(ctx, ask, result) // a shared call can bring a prefetch
		} else {
			_, err = l.callRedis(ctx, ask, result)
		}
		if err != nil {
			return err
		}
		releases := l.addPrefetched(ask, result, mayRevoke)
		if releases == nil {
			return nil
		}
		runAll(ctx, releases) // if one fails, the next call shows what is free
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// waitHooked is Wait with prefetches, the denial cache and the report of the decision.
func (l *Limiter) waitHooked(ctx context.Context, ask Ask, deadline time.Time, result *Result) (granted bool,
	err error) {
	observation, reported := l.Observe(ask.Permits), false
	defer result.returnUnless(&reported)
	if !l.fromPrefetch(ask, result) {
		if err = l.denyUntil(ask, earlierDeadline(ctx, deadline), result); err == nil {
			err = observation.wait(ctx, func() (bool, error) { return l.wait(ctx, ask, deadline, result) })
		}
	}
	granted, err = err == nil, withoutDeadline(ctx, deadline, err)
	observation.Report(ctx, granted, result.From, err)
	reported = true
	return granted, err
}

// hookDispatch plans the prefetch of a batch that is about to be sent. The entry is locked.
func (l *Limiter) hookDispatch(e *entry, b *Batch) {
	if e.queue == nil || b.queue != nil { // else free permits are for the waiters
		e.prefetches.plan(b)
	}
}

// hookSend records the state that a call starts from, and its begin.
func (l *Limiter) hookSend(b *Batch, now time.Time) {
	g := l.Engine
	b.sent.dated = now.Truncate(l.tick())
	b.sent.version = g.denials.version(l)
	g.observer.begin(l, b)
}

// hookAnswer stores the prefetch that a call has brought, and has a caller report the call. The answers are
// final and the entry, if there is one, is locked. It returns the release of a prefetch that must not be
// used.
func (l *Limiter) hookAnswer(e *entry, b *Batch) (discarded release) {
	b.sent.call.finish(b.Prefetch.Granted, b.err)
	b.assignCall()
	if e == nil {
		return nil
	}
	discarded = e.prefetches.store(b)
	if b.queue != nil && b.queue.waiters.first == nil { // else prefetched permits are for the waiters
		e.prefetches.addToAll(b)
	}
	if b.queue == nil && b.Prefetch.Granted > 0 && e.queue != nil {
		e.queue.wake() // its waiters are served from the prefetch first
	}
	return discarded
}

// hookEnd ends the cached denials that count permits which a call has taken, and caches its own denial,
// before its callers ask again.
func (l *Limiter) hookEnd(b *Batch) {
	if g := l.Engine; g.denials != nil {
		if b.Granted+b.Prefetch.Granted > 0 {
			b.sent.version = g.denials.forgetAfterGrant(l, b.sent.version)
		}
		l.remember(b)
	}
	if b.queue == nil {
		b.takeCall().reportAlone() // if no caller does
	}
}

// countForPrefetch counts the demand of a request for the next prefetch. The entry is locked.
func (l *Limiter) countForPrefetch(e *entry, r *Request) {
	l.ensureLeases(e, r.Permits)
	// A denial then reports the free permits, which together with the prefetched ones may be enough.
	r.Detail = r.Detail || e.prefetches.unused(time.Now()) > 0
}
