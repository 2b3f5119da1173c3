package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// carry sends the batch that gathered first, and goes on as long as others have gathered meanwhile. Where it runs on the
// goroutine of a caller it sends one and leaves the rest to a goroutine of its own, since the caller has its answer by then.
func (l *Limiter) carry(ctx context.Context, e *entry, inline bool) {
	for again := true; again; {
		again = l.send(ctx, e, l.dispatch(e))
		if again && inline {
			l.carryLater(ctx, e)
			again = false
		}
	}
}

// carryLater is carry on another goroutine.
func (l *Limiter) carryLater(ctx context.Context, e *entry) {
	l.Engine.workers.run(func() { l.carry(ctx, e, false) })
}

// send sends a batch and answers it, and says whether others have gathered meanwhile.
func (l *Limiter) send(ctx context.Context, e *entry, b *Batch) (again bool) {
	return l.answer(ctx, e, b, l.acquire)
}

// answer answers a batch by a call. If the call does not return, another goroutine sees to those that have gathered.
func (l *Limiter) answer(ctx context.Context, e *entry, b *Batch, call func(context.Context, *Batch) error) (again bool) {
	var err error
	orElse(func() { err = call(ctx, b) }, func() { l.completeAll(ctx, e, b, l.Protocol.Explain(ctx, errBroken)) })
	return l.complete(ctx, e, b, err)
}

// dispatch takes the batch that gathered first along.
func (l *Limiter) dispatch(e *entry) *Batch {
	g := l.Engine
	g.yieldTo(e)
	e.mu.Lock()
	b := e.leave()
	if shared := e.crowded(b); shared != g.yields.shared.Load() {
		g.yields.shared.Store(shared)
	}
	if e.queue == nil { // else what is free is for those who wait
		b.changes = e.holding.wish(b)
	}
	e.mu.Unlock()
	b.version = g.denials.version(l)
	return b
}

// wanted says whether a batch is to be sent: not where all of its callers have gone.
func (b *Batch) wanted() bool { return len(b.Requests) > 0 || b.Lease.Span > 0 }

// complete gives the callers of a batch their answers, err being that of its call. It says whether others have gathered meanwhile,
// whose batch is to leave next. It waits for nothing.
func (l *Limiter) complete(ctx context.Context, e *entry, b *Batch, err error) (again bool) {
	g := l.Engine
	b.call.ends(b.Lease.Granted, err)
	if b.wanted() {
		if slow := time.Since(b.sent) >= slowCall; slow != g.slow.Load() {
			g.slow.Store(slow)
		}
	}

	e.mu.Lock()
	for _, r := range b.Requests {
		if r.deliver(err) {
			b.Lost = append(b.Lost, r)
		}
	}
	b.count()
	b.hand()
	unused := e.holding.keep(b, err, b.changes)
	if b.Lease.Granted > 0 && e.queue != nil {
		e.queue.wake() // those who wait are served from it first
	}
	again = e.first != nil && !e.leaving
	if again {
		e.leaving = true
	} else if e.calls--; e.calls == 0 {
		g.calling.Add(-1)
	}
	g.names.unlock(e)
	// The requests are their callers' from here on.
	clear(b.Requests)
	if b.answered != nil {
		close(b.answered)
	}
	l.giveBack(ctx, b)
	unused.later()
	b.takeCall().tellAlone()
	if g.denials != nil && b.Denied > 0 {
		l.remember(b, b.version)
	}
	b.clear()
	g.batches.Put(b)
	return again
}

// yieldTo lets callers join the batch that leaves next, mostly those that the last reply woke. A call without company does not
// yield, so that a lone caller does not wait.
func (g *Engine) yieldTo(e *entry) {
	if !g.yields.shared.Load() {
		return
	}
	g.yields.gather(fullBatch, func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.first.Requests)
	})
}

// crowded says whether a batch is for more than one caller, or others ask for its name. The entry is locked.
func (e *entry) crowded(b *Batch) bool { return len(b.Requests) > 1 || e.calls > 1 }

// leave takes the batch that gathered first off, without the requests whose callers have gone. The entry is locked.
func (e *entry) leave() *Batch {
	b := e.first
	e.remove(b)
	e.leaving = false
	if b.live < len(b.Requests) {
		b.Requests = slices.DeleteFunc(b.Requests, func(r *Request) bool { return r.state == abandoned })
	}
	for _, r := range b.Requests {
		r.state = inFlight
	}
	atomic.StoreInt32(&b.callers, int32(len(b.Requests)))
	return b
}
