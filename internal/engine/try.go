package engine

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Try asks for permits without a wait for them. A caller that finds others of its limiter shares a call
// with them. Try ends with ctx. If the call was sent by then, permits that arrive are refunded.
//
// It reports whether the Limiter is no longer used after the call, so that its owner may change it. It may be used if
// the call was shared or failed, if the caller may leave, and with hooks.
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

// endCall counts a call that has ended. It reports whether the entry has another batch to be sent, for
// which the call is reserved then.
func (e *entry) endCall() (again bool) {
	if again = len(e.collecting) > 0 && !e.dispatching; again {
		e.dispatching = true
	} else {
		e.calls--
	}
	return again
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
	if again = e.endCall(); again && errors.Is(b.err, redisx.ErrNoReply) {
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

// activities counts the lone calls and the entries, by a hash of their IDs. crowdedBit is set beside that number
// if the last shared call of a limiter had several callers, or was not its only call. Then callers
// share calls at once.
type activities [1 << 14]atomic.Int32

const crowdedBit = 1 << 30

// counterOf returns the counter of an ID. Few others have the same.
func (a *activities) counterOf(id string) *atomic.Int32 {
	return &a[maphash.String(seed, id)%uint64(len(a))]
}

// A yield in a busy process lasts until all of its goroutines have run. If it brings no caller, the
// process is busy with other work, and calls stop yielding for a while.
const (
	longestYield  = 5 * time.Millisecond // a yield that lasts longer shows that the process is busy
	skippedYields = 1000                 // calls that do not yield then
)

// yields lets callers join a call that is about to be sent.
type yields struct {
	skips atomic.Int64 // calls that do not yield, since the process is busy
}

// collect yields as long as each yield brings callers, until there are enough.
func (y *yields) collect(enough int, callers func() int) {
	for before := 0; before < enough && y.yield(callers); {
		now := callers()
		if now == before {
			return
		}
		before = now
	}
}

// yield lets other goroutines run, and reports whether the process is not too busy for that. Whether others join the
// call of a queue is not counted: callers is nil.
func (y *yields) yield(callers func() int) bool {
	if y.skips.Load() > 0 {
		y.skips.Add(-1)
		return false
	}
	start := time.Now()
	runtime.Gosched()
	if time.Since(start) <= longestYield {
		return true
	}
	if callers == nil || callers() == 1 {
		y.skips.Store(skippedYields)
	}
	return false
}
