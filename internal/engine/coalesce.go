package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// On a fast link, two calls keep the server busy, and more calls would each be smaller. If calls
// take long, a caller must not wait for the call before, so more calls are in flight. A call waits
// for the callers that a reply has woken, but for no more than fullBatch. Otherwise all callers
// would share one call, and all would be idle while it is in flight. make bench measures it.
const (
	maxCalls  = 8                // calls in flight if calls are slow
	fastCalls = 2                // calls in flight if they are fast
	slowCall  = time.Millisecond // calls are slow if the last one took as long
	fullBatch = 128              // callers of a call that no longer waits for others to join
)

// reserveCall reports whether another call for the limiter may be sent, and counts it. The entry is
// locked.
func (g *Engine) reserveCall(e *entry) bool {
	limit := fastCalls
	if g.slow.Load() {
		limit = maxCalls
	}
	if e.dispatching || e.calls >= limit {
		return false
	}
	e.dispatching = true
	if e.calls++; e.calls == 1 {
		g.calling.Add(1)
	}
	return true
}

// addRequest adds a request to the last batch that collects requests, or to a new one if that is
// full. The entry is locked.
func (l *Limiter) addRequest(e *entry, r *Request) *Batch {
	g := l.Engine
	b := e.last
	// The permits of a call fit into 32 bits of a member.
	if b == nil || len(b.Requests) >= MaxRequests || r.Most() > MaxPermits-b.open.permits {
		b = g.newBatch()
		e.push(b)
	}
	r.batch = b
	b.Requests = append(b.Requests, r)
	b.open.permits += r.Most()
	b.receipts = b.receipts || r.Receipt
	return b
}

// newBatch returns an empty batch.
func (g *Engine) newBatch() *Batch {
	b := g.batches.Get().(*Batch)
	b.Full = g.denials != nil
	return b
}

// dispatch takes the first batch to be sent, and plans a lease for it.
func (l *Limiter) dispatch(e *entry) *Batch {
	g := l.Engine
	g.yieldTo(e)
	e.mu.Lock()
	b := e.takeFirst()
	if contended := len(b.Requests) > 1 || e.calls > 1; contended != g.contended.Load() {
		g.contended.Store(contended)
	}
	if e.queue == nil { // else free permits are for the waiters
		b.sent.changes = e.leases.plan(b)
	}
	e.mu.Unlock()
	b.sent.version = g.denials.version(l)
	return b
}

// yieldTo lets callers join the first batch, mostly those that the last reply has woken. If the
// last call had a single caller, no call yields: a lone caller does not wait. The pipeline of a call
// yields once more, for calls of other limiters: then no caller can join this one.
func (g *Engine) yieldTo(e *entry) {
	if !g.contended.Load() {
		return
	}
	g.yields.collect(fullBatch, func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.first.Requests)
	})
}

// takeFirst removes the first batch. The entry is locked.
func (e *entry) takeFirst() *Batch {
	b := e.first
	if e.first = b.open.next; e.first == nil {
		e.last = nil
	}
	b.open.next, e.dispatching = nil, false
	for _, r := range b.Requests {
		r.state = inFlight
	}
	atomic.StoreInt32(&b.sent.callers, int32(len(b.Requests)))
	return b
}

// sendBatches sends the first batch, and then those that have collected requests meanwhile. If it
// runs on the goroutine of a caller (inline), it sends one batch and leaves the others to another
// goroutine.
func (l *Limiter) sendBatches(ctx context.Context, e *entry, inline bool) {
	for l.runCall(ctx, e, l.dispatch(e)) {
		ctx = context.Background() // the values of ctx belong to a caller of the first batch
		if inline {
			l.startSending(ctx, e)
			return
		}
	}
}

// startSending runs sendBatches on another goroutine.
func (l *Limiter) startSending(ctx context.Context, e *entry) {
	l.Engine.workers.run(func() { l.sendBatches(ctx, e, false) })
}

// runCall runs the call of a batch and completes it. It reports whether another batch is to be
// sent. If the call does not return, another goroutine sends that batch.
func (l *Limiter) runCall(ctx context.Context, e *entry, b *Batch) (again bool) {
	var err error
	runOrAbort(func() { err = l.acquire(b.context(ctx), b) }, func() {
		if l.complete(ctx, e, b, l.Protocol.Explain(ctx, redisx.ErrNoReply)) {
			l.startSending(context.Background(), e)
		}
	})
	return l.complete(ctx, e, b, err)
}

// abandon takes a caller whose context has ended out of its batch. It reports false if the answer
// is already there.
func (g *Engine) abandon(e *entry, r *Request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.state {
	case answered:
		return false
	case queued:
		b := r.batch
		b.open.permits -= r.Most()
		at := slices.Index(b.Requests, r)
		b.Requests = slices.Delete(b.Requests, at, at+1)
	case inFlight:
		atomic.AddInt32(&r.batch.sent.callers, -1)
	}
	r.state = abandoned
	return true
}
