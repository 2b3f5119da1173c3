package engine

import (
	"context"
	"sync/atomic"
)

// Try asks for permits without a wait for them. A caller that finds others of its limiter shares a call
// with them. Try ends with ctx. If the call was sent by then, permits that arrive are refunded.
//
// It reports whether no goroutine of the Engine still uses the Limiter, so that its owner may change it. That is so
// after a lone call without an error and without hooks whose caller could not leave.
func (l *Limiter) Try(ctx context.Context, ask Ask, result *Result) (unused bool, err error) {
	if l.Engine.hooked {
		return false, l.tryHooked(ctx, ask, result)
	}
	return l.callRedis(ctx, ask, result)
}

// tryHooked is Try with prefetches, the denial cache and the report of the decision.
func (l *Limiter) tryHooked(ctx context.Context, ask Ask, result *Result) error {
	observation, reported := l.Observe(ask.Most()), false
	defer result.returnUnless(&reported)
	err := l.tryUnobserved(ctx, ask, result)
	if result.Allowed {
		observation.Permits = result.Granted
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
			if cached, denied := l.denyFromMemory(ask); denied {
				*result = cached
				return nil
			}
		}
		var err error
		if l.usesPrefetch() {
			err = l.callShared(ctx, ask, result) // a shared call can bring a prefetch
		} else {
			_, err = l.callRedis(ctx, ask, result)
		}
		if err != nil {
			return err
		}
		revoked := l.addPrefetched(ask, result, mayRevoke)
		if revoked == nil {
			return nil
		}
		await(ctx, revoked) // if a refund fails, the next call shows what is free
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// fromPrefetch answers a request from the prefetches of this process, if it can, and fetches the next
// prefetch in time. While the limiter has waiters, it serves no other caller: waiters come first.
func (l *Limiter) fromPrefetch(ask Ask, result *Result) (ok bool) {
	if !l.usesPrefetch() {
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
	if fetch && len(e.collecting) == 0 {
		l.Engine.newBatch(e)
	}
	e.mu.Unlock()
	if fetch {
		go l.sendBatches(context.Background(), e, false)
	}
	return ok
}

// addPrefetched adds the prefetched permits to a result of Redis: they are free, too. Together with the permits
// that are free in Redis, they may be enough for a denied request. Then, if it may, addPrefetched revokes
// the prefetches. The request is to be repeated after that.
func (l *Limiter) addPrefetched(ask Ask, result *Result, mayRevoke bool) []*transfer {
	counts := ask.UpTo > 0 || ask.Detail
	if !l.usesPrefetch() || result.Allowed && !counts {
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
	if result.Allowed || ask.UpTo > 0 || !mayRevoke || e.prefetches == nil {
		return nil
	}
	return e.prefetches.revokeFor(ask.Permits)
}

// callRedis asks Redis: with a call of its own if no other call of the limiter is known, else with a shared one. An
// entry and a shared batch would cost a lone caller more than the rest of its call. unused is that of Try.
func (l *Limiter) callRedis(ctx context.Context, ask Ask, result *Result) (unused bool, err error) {
	g := l.Engine
	activity := g.registry.active.counterOf(l.ID)
	if !activity.CompareAndSwap(0, 1) {
		return false, l.callShared(ctx, ask, result)
	}
	b := g.lone.Get().(*Batch) //nolint:errcheck,forcetypeassert // nothing else is there
	r := b.Requests[0]
	r.Ask = ask
	r.state.Store(inFlight)
	b.callers.Store(1)
	ended := ctx.Done()
	if ended == nil { // the caller cannot leave
		l.runLone(ctx, b, activity)
	} else {
		go l.runLone(ctx, b, activity)
	}
	select {
	case <-b.done:
	case <-ended:
		if r.state.CompareAndSwap(inFlight, abandoned) {
			b.callers.Store(0)
			return false, ctx.Err()
		}
		<-b.done
	}
	err = l.takeResult(ctx, r, result)
	g.lone.Put(b)
	return ended == nil && err == nil, err
}

// runLone makes the call of a lone batch.
func (l *Limiter) runLone(ctx context.Context, b *Batch, activity *atomic.Int32) {
	if _, limited := ctx.Deadline(); limited || ctx.Done() != nil { // else rueidis may have the context
		ctx = b.context(ctx)
	}
	l.run(ctx, nil, b, func() {
		activity.Add(-1)
		if b.callInfo != nil {
			b.takeCallInfo().reportAlone() // if no caller does
		}
		if b.Requests[0].state.Load() == answered { // else its caller has left
			b.done <- struct{}{}
		}
	})
}
