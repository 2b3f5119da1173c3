package engine

import (
	"context"
	"slices"
	"time"
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
	e.calls++
	return true
}

// endCall counts a call that has ended. It reports whether the entry has another batch to be sent, for
// which the call is reserved then.
func (e *entry) endCall() (again bool) {
	if again = e.first != nil && !e.dispatching; again {
		e.dispatching = true
	} else {
		e.calls--
	}
	return again
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

// dispatch takes the first batch to be sent.
func (l *Limiter) dispatch(e *entry) *Batch {
	g := l.Engine
	crowded := e.busy.Load()&crowdedBit != 0
	if crowded {
		// Lets callers join, mostly those that the last reply has woken.
		g.yields.collect(fullBatch, e.collected)
	}
	e.mu.Lock()
	b := e.takeFirst()
	if now := len(b.Requests) > 1 || e.calls > 1; now && !crowded {
		e.busy.Or(crowdedBit)
	} else if crowded && !now {
		e.busy.And(^crowdedBit)
	}
	if g.hooked {
		l.hookDispatch(e, b)
	}
	e.mu.Unlock()
	return b
}

// collected returns how many callers the first batch has.
func (e *entry) collected() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.first.Requests)
}

// takeFirst removes the first batch. The entry is locked.
func (e *entry) takeFirst() *Batch {
	b := e.first
	if e.first = b.open.next; e.first == nil {
		e.last = nil
	}
	b.open.next, e.dispatching = nil, false
	for _, r := range b.Requests {
		r.state.Store(inFlight)
	}
	b.sent.callers.Store(int32(len(b.Requests)))
	return b
}

// sendBatches sends the first batch, and then those that have collected requests meanwhile. If it
// runs on the goroutine of a caller (inline), it sends one batch and leaves the others to another
// goroutine.
func (l *Limiter) sendBatches(ctx context.Context, e *entry, inline bool) {
	for l.run(ctx, e, l.dispatch(e)) {
		ctx = context.Background() // the values of ctx belong to a caller of the first batch
		if inline {
			l.Engine.workers.run(task{l, ctx, e, nil})
			return
		}
	}
}

// abandon takes a caller whose context has ended out of its batch. It reports false if the answer
// is already there.
func abandon(e *entry, r *Request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.state.Load() {
	case answered:
		return false
	case queued:
		b := r.batch
		b.open.permits -= r.Most()
		at := slices.Index(b.Requests, r)
		b.Requests = slices.Delete(b.Requests, at, at+1)
	case inFlight:
		r.batch.sent.callers.Add(-1)
	}
	r.state.Store(abandoned)
	return true
}
