package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// callShared asks Redis with a call that other callers of the limiter share.
func (l *Limiter) callShared(ctx context.Context, ask Ask, result *Result) error {
	g := l.Engine
	ended := ctx.Done()
	r := g.requests.Get().(*Request) //nolint:errcheck,forcetypeassert // nothing else is there
	r.Ask = ask
	r.state.Store(queued)
	e := g.registry.lockEntry(l.ID)
	if g.hooked && l.usesPrefetch() {
		l.countDemand(e, r.Permits)
		// A denial then reports the free permits, which together with the prefetched ones may be enough.
		r.Detail = r.Detail || e.prefetches.unused(time.Now()) > 0
	}
	b := l.addRequest(e, r)
	sends := g.reserveCall(e)
	inline := sends && ended == nil && b == e.collecting[0]
	if b.done == nil && !inline {
		b.done = make(chan struct{})
	}
	done := b.done
	e.mu.Unlock()

	if sends && !inline {
		go l.sendBatches(ctx, e, false)
	}
	switch {
	case inline:
		l.sendBatches(ctx, e, true) // until this request is answered
	case ended == nil:
		<-done // a select takes longer
	default:
		select {
		case <-done:
		case <-ended:
			if abandon(e, r) {
				return ctx.Err()
			}
			<-done
		}
	}
	err := l.takeResult(ctx, r, result)
	g.requests.Put(r)
	return err
}

// On a fast link, two calls keep the server busy, and more calls would each be smaller. If calls
// take long, a caller must not wait for the call before, so more calls are in flight. A call waits
// for the callers that a reply has woken, but for no more than fullBatch. Otherwise all callers
// would share one call, and all would be idle while it is in flight. make bench measures it.
const (
	maxCalls  = 8   // calls in flight if the last one was slow: see slowCall
	fastCalls = 2   // calls in flight if it was fast
	fullBatch = 128 // callers of a call that no longer waits for others to join
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

// addRequest adds a request to the last batch that collects requests, or to a new one if that is
// full. The entry is locked.
func (l *Limiter) addRequest(e *entry, r *Request) *Batch {
	var b *Batch
	if n := len(e.collecting); n > 0 {
		b = e.collecting[n-1]
	}
	// The permits of a call fit into 32 bits of a member.
	if b == nil || len(b.Requests) >= MaxRequests || r.Most() > MaxPermits-b.permits {
		b = l.Engine.newBatch(e)
	}
	r.batch = b
	b.Requests = append(b.Requests, r)
	b.permits += r.Most()
	return b
}

// newBatch begins another batch that collects requests.
func (g *Engine) newBatch(e *entry) *Batch {
	b := g.batches.Get().(*Batch) //nolint:errcheck,forcetypeassert // nothing else is there
	e.collecting = append(e.collecting, b)
	return b
}

// dispatch takes the first batch to be sent. If callers share calls, it first waits for more of them.
func (l *Limiter) dispatch(e *entry) *Batch {
	g := l.Engine
	crowded := e.activity.Load()&crowdedBit != 0
	if crowded {
		// Lets callers join, mostly those that the last reply has woken.
		g.yields.collect(fullBatch, e.collected)
	}
	e.mu.Lock()
	b := e.takeFirst()
	if shared := len(b.Requests) > 1 || e.calls > 1; shared && !crowded {
		e.activity.Or(crowdedBit)
	} else if crowded && !shared {
		e.activity.And(^crowdedBit)
	}
	if e.prefetches != nil && e.queue == nil { // else free permits are for the waiters
		e.prefetches.plan(b)
	}
	e.mu.Unlock()
	return b
}

// collected returns how many callers the first batch has.
func (e *entry) collected() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.collecting[0].Requests)
}

// takeFirst removes the first batch, whose requests are in flight from then on. The entry is locked.
func (e *entry) takeFirst() *Batch {
	b := e.collecting[0]
	e.collecting, e.dispatching = slices.Delete(e.collecting, 0, 1), false
	for _, r := range b.Requests {
		r.state.Store(inFlight)
	}
	b.callers.Store(int32(len(b.Requests)))
	return b
}

// sendBatches sends the first batch, and then those that have collected requests meanwhile. If it
// runs on the goroutine of a caller (inline), it sends one batch and leaves the others to another
// goroutine.
func (l *Limiter) sendBatches(ctx context.Context, e *entry, inline bool) {
	for again := true; again; {
		b := l.dispatch(e)
		l.run(b.context(ctx), e, b, func() { again = l.endShared(e, b) })
		ctx = context.Background() // the values of ctx belong to a caller of the first batch
		if again && inline {
			go l.sendBatches(ctx, e, false)
			return
		}
	}
}

// endShared ends a shared call. It reports whether the entry has another batch to be sent. If this goroutine ends,
// another one sends it. The entry is locked.
func (l *Limiter) endShared(e *entry, b *Batch) (again bool) {
	if b.Prefetch.Granted > 0 && e.queue != nil {
		e.queue.wake() // its waiters are served from the prefetch first
	}
	if again = len(e.collecting) > 0 && !e.dispatching; again { // the next call takes the place of this one
		e.dispatching = true
	} else {
		e.calls--
	}
	if again && errors.Is(b.err, redisx.ErrNoReply) {
		again = false
		go l.sendBatches(context.Background(), e, false)
	}
	l.Engine.registry.unlockEntry(e)
	if b.callInfo != nil {
		b.takeCallInfo().reportAlone() // if no caller does
	}
	b.wakeShared()
	l.Engine.batches.Put(b)
	return again
}

// wakeShared wakes the callers of a shared batch, and clears it for reuse.
func (b *Batch) wakeShared() {
	clear(b.Requests)
	clear(b.Lost)
	done := b.done
	b.Requests, b.Prefetch, b.done, b.permits = b.Requests[:0], Prefetch{}, nil, 0
	b.BatchResult = BatchResult{Lost: b.Lost[:0]}
	if done != nil {
		close(done)
	}
}

// abandon takes a caller whose context has ended out of its batch, or if that was sent, has the permits that
// arrive refunded. It reports false if the answer is already there.
func abandon(e *entry, r *Request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.state.Load() {
	case answered:
		return false
	case queued:
		b := r.batch
		b.permits -= r.Most()
		at := slices.Index(b.Requests, r)
		b.Requests = slices.Delete(b.Requests, at, at+1)
	case inFlight:
		r.batch.callers.Add(-1)
	}
	r.state.Store(abandoned)
	return true
}
