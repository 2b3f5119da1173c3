package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// How many calls for one limiter may be in flight at once, and when one leaves, follows from what is seen.
//
// On a fast link two calls keep the server busy, and more make all of them smaller. The callers that a reply woke come
// back within moments, so a call waits for them, giving way as long as more come. It does not wait for more than fullBatch,
// or all callers would end up in one call and idle together while it is under way. Where a call takes long, its callers
// must not wait for the one before it, and more of them fly. Decisions a second against one call for each decision,
// by callers (medians of short runs, two cores):
//
//	                                         4      256    2048
//	2 calls of 128                        1.58     14.7    24.0
//	2 calls of 256                        1.56     13.8    25.1
//	3 calls of 128                        1.47     14.9    25.4
//	1 call of 256                         1.35     13.0    23.4
//	2 ms link: 1 call of 128                       1.06     7.2
//	2 ms link: 2 calls of 128                      1.54     6.0
//	2 ms link: 8 calls of 128                      1.85     8.0
//	2 ms link: 16 calls of 128                     1.72     7.8
//
// Three calls cost the server more for each decision than they gain.
//
// make bench measures it.
const (
	mostCalls = 8                // in flight at once, where calls are slow
	fastCalls = 2                // in flight at once, where they are fast
	slowCall  = time.Millisecond // the last call took as long or longer: calls are slow
	fullBatch = 128              // callers with whom a call no longer waits for those about to join
)

// lead says whether another call may be in flight, and counts it if so: it is about to leave. The entry is locked.
func (g *Engine) reserveCall(e *entry) bool {
	if e.dispatching || e.calls >= g.callLimit() {
		return false
	}
	e.dispatching = true
	if e.calls++; e.calls == 1 {
		g.calling.Add(1)
	}
	return true
}

// callLimit is how many calls for one limiter may be in flight at once.
func (g *Engine) callLimit() int {
	if g.slow.Load() {
		return mostCalls
	}
	return fastCalls
}

// gather puts a request into the batch that gathers last, or into another one where that is full. The entry is locked.
func (l *Limiter) addRequest(e *entry, r *Request) *Batch {
	g := l.Engine
	b := e.last
	// A call adds up no more than 2^53.
	if b == nil || len(b.Requests) >= cmp.Or(l.Most, MostRequests) || r.Permits > MostPermits-b.permits {
		b = g.newBatch()
		e.push(b)
	}
	r.batch = b
	b.Requests = append(b.Requests, r)
	b.permits += r.Permits
	b.live++
	return b
}

// newBatch gives an empty batch.
func (g *Engine) newBatch() *Batch {
	b := g.batches.Get().(*Batch)
	b.Full = g.denials != nil
	return b
}

// dispatch takes the batch that gathered first along.
func (l *Limiter) dispatch(e *entry) *Batch {
	g := l.Engine
	g.yieldTo(e)
	e.mu.Lock()
	b := e.takeFirst()
	if shared := e.shared(b); shared != g.yields.shared.Load() {
		g.yields.shared.Store(shared)
	}
	if e.queue == nil { // else what is free is for those who wait
		b.changes = e.leases.plan(b)
	}
	e.mu.Unlock()
	b.version = g.denials.version(l)
	return b
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
func (e *entry) shared(b *Batch) bool { return len(b.Requests) > 1 || e.calls > 1 }

// leave takes the batch that gathered first off, without the requests whose callers have gone. The entry is locked.
func (e *entry) takeFirst() *Batch {
	b := e.first
	e.remove(b)
	e.dispatching = false
	if b.live < len(b.Requests) {
		b.Requests = slices.DeleteFunc(b.Requests, func(r *Request) bool { return r.state == abandoned })
	}
	for _, r := range b.Requests {
		r.state = inFlight
	}
	atomic.StoreInt32(&b.callers, int32(len(b.Requests)))
	return b
}

// carry sends the batch that gathered first, and goes on as long as others have gathered meanwhile. Where it runs on the
// goroutine of a caller it sends one and leaves the rest to a goroutine of its own, since the caller has its answer by then.
func (l *Limiter) sendBatches(ctx context.Context, e *entry, inline bool) {
	for again := true; again; {
		again = l.sendBatch(ctx, e, l.dispatch(e))
		if again && inline {
			l.startSending(ctx, e)
			again = false
		}
	}
}

// carryLater is carry on another goroutine.
func (l *Limiter) startSending(ctx context.Context, e *entry) {
	l.Engine.workers.run(func() { l.sendBatches(ctx, e, false) })
}

// answer answers a batch by a call. If the call does not return, another goroutine sees to those that have gathered.
func (l *Limiter) runCall(ctx context.Context, e *entry, b *Batch, call func(context.Context, *Batch) error) (again bool) {
	var err error
	orElse(func() { err = call(ctx, b) }, func() { l.completeAndContinue(ctx, e, b, l.Protocol.Explain(ctx, errBroken)) })
	return l.complete(ctx, e, b, err)
}

// send sends a batch and answers it, and says whether others have gathered meanwhile.
func (l *Limiter) sendBatch(ctx context.Context, e *entry, b *Batch) (again bool) {
	return l.runCall(ctx, e, b, l.acquire)
}

// sendPiped sends the batch that gathered first in a pipeline, and waits for nothing: who flushes the pipeline answers it. A caller
// who can leave shares a goroutine with all of a pipeline, that way.
func (l *Limiter) sendInPipeline(ctx context.Context, e *entry) {
	g := l.Engine
	b := l.dispatch(e)
	detached := context.WithoutCancel(ctx)
	if !b.wanted() {
		l.completeAndContinue(detached, e, b, nil)
		return
	}
	c := scriptCall{answer: func(ctx context.Context, reply rueidis.RedisMessage, err error) { l.readPiped(ctx, e, b, reply, err) }}
	orElse(func() {
		b.forget()
		l.prepare(b)
		c.script, c.keys = l.Protocol.Call(b)
		c.args = b.Args
	}, func() { l.completeAndContinue(detached, e, b, l.Protocol.Explain(ctx, errBroken)) })
	if d, place := g.pipeline.join(c); place == 0 {
		g.workers.run(func() { g.pipeline.flush(detached, d) })
	}
}

// finish reads the reply to a batch that was sent in a pipeline.
func (l *Limiter) readPiped(ctx context.Context, e *entry, b *Batch, reply rueidis.RedisMessage, failed error) {
	if failed == nil {
		again, err := l.read(b, reply)
		if !again {
			l.completeAndContinue(ctx, e, b, err)
			return
		}
	}
	// What Redis has to be asked for first keeps none of the others waiting.
	go func() {
		again := l.runCall(ctx, e, b, func(ctx context.Context, b *Batch) error { return l.continueCall(ctx, b, failed) })
		if again {
			l.startSending(ctx, e)
		}
	}()
}

// goOn goes on where the script did not do all of its work, or says what its error is.
func (l *Limiter) continueCall(ctx context.Context, b *Batch, failed error) error {
	switch {
	case failed == nil:
		return l.converse(b.context(ctx), b)
	case slotMoves(b.context(ctx), failed, 0):
		return l.acquire(ctx, b)
	}
	return l.Protocol.Explain(ctx, failed)
}

// complete gives the callers of a batch their answers, err being that of its call. It says whether others have gathered meanwhile,
// whose batch is to leave next. It waits for nothing.
func (l *Limiter) complete(ctx context.Context, e *entry, b *Batch, err error) (again bool) {
	g := l.Engine
	b.call.finish(b.Lease.Granted, err)
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
	b.assignCall()
	unused := e.leases.store(b, err, b.changes)
	if b.Lease.Granted > 0 && e.queue != nil {
		e.queue.wake() // those who wait are served from it first
	}
	again = e.first != nil && !e.dispatching
	if again {
		e.dispatching = true
	} else if e.calls--; e.calls == 0 {
		g.calling.Add(-1)
	}
	g.registry.unlock(e)
	// The requests are their callers' from here on.
	clear(b.Requests)
	if b.answered != nil {
		close(b.answered)
	}
	l.releaseLost(ctx, b)
	unused.runLater()
	b.takeCall().reportAlone()
	if g.denials != nil && b.Denied > 0 {
		l.remember(b, b.version)
	}
	b.clear()
	g.batches.Put(b)
	return again
}

// completeAll answers a batch, and sees to those that have gathered meanwhile.
func (l *Limiter) completeAndContinue(ctx context.Context, e *entry, b *Batch, err error) {
	if l.complete(ctx, e, b, err) {
		l.startSending(ctx, e)
	}
}

// abandon takes a caller whose context has ended out of its request. It says false where the answer is there already.
//
// While a call hangs nothing may gather for it but those who still wait: of a batch that gathers, at most half are
// abandoned requests.
func (g *Engine) abandon(e *entry, r *Request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.state {
	case answered:
		return false
	case queued:
		b := r.batch
		b.permits -= r.Permits
		b.live--
		r.state = abandoned
		switch {
		case b.live == 0 && (b != e.first || !e.dispatching):
			e.remove(b)
		case b.live <= len(b.Requests)/2:
			b.Requests = slices.DeleteFunc(b.Requests, func(r *Request) bool { return r.state == abandoned })
		}
	case inFlight:
		atomic.AddInt32(&r.batch.callers, -1)
	}
	r.state = abandoned
	return true
}
