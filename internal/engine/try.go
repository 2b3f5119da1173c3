package engine

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Try asks for permits without a wait for them. A caller that finds others of its limiter shares a call
// with them. Try ends with ctx. If the call was sent by then, permits that arrive are refunded.
func (l *Limiter) Try(ctx context.Context, ask Ask, result *Result) error {
	if l.Engine.hooked {
		return l.tryHooked(ctx, ask, result)
	}
	_, err := l.callRedis(ctx, ask, result)
	return err
}

// TryOnce is Try. It reports whether the Limiter is no longer used after the call, so that its owner may change
// it. It may be used if the call was shared or failed, if the caller may leave, and with hooks.
func (l *Limiter) TryOnce(ctx context.Context, ask Ask, result *Result) (unused bool, err error) {
	if l.Engine.hooked {
		return false, l.tryHooked(ctx, ask, result)
	}
	return l.callRedis(ctx, ask, result)
}

// callRedis asks Redis: with a call of its own if no other call of the limiter is known, else with a shared one. An
// entry and a shared batch would cost a lone caller more than the rest of its call. unused is that of TryOnce.
func (l *Limiter) callRedis(ctx context.Context, ask Ask, result *Result) (unused bool, err error) {
	g := l.Engine
	activity := g.registry.active.of(l.ID)
	if !activity.CompareAndSwap(0, 1) {
		return false, l.share(ctx, ask, result)
	}
	b := g.lone.Get().(*Batch) //nolint:errcheck,forcetypeassert // nothing else is there
	r := b.Requests[0]
	r.Ask, b.activity = ask, activity
	r.state.Store(inFlight)
	b.sent.callers.Store(1)
	ended := ctx.Done()
	if ended == nil {
		l.runLone(ctx, b)
	} else {
		go l.runLone(ctx, b)
	}
	select {
	case <-b.done:
	case <-ended:
		if r.state.CompareAndSwap(inFlight, abandoned) {
			b.sent.callers.Store(0)
			return false, ctx.Err()
		}
		<-b.done
	}
	err = l.takeResult(ctx, r, result)
	g.lone.Put(b)
	return ended == nil && err == nil, err
}

// runLone makes the call of a lone batch.
func (l *Limiter) runLone(ctx context.Context, b *Batch) {
	b.err = redisx.ErrNoReply // unless the call returns
	defer l.endLone(ctx, b)
	if _, limited := ctx.Deadline(); limited || ctx.Done() != nil { // else the caller cannot leave
		ctx = b.context(ctx)
	}
	b.err = l.acquire(ctx, b)
}

// endLone ends a lone call.
func (l *Limiter) endLone(ctx context.Context, b *Batch) {
	if b.err != nil {
		l.explainAbort(ctx, b)
	}
	l.finishRequests(b)
	if l.Engine.hooked {
		l.hookAnswer(nil, b)
	}
	b.activity.Add(-1)
	if l.Engine.hooked {
		l.hookEnd(b)
	}
	if len(b.Lost) > 0 {
		l.refundLost(ctx, b)
	}
	if b.Requests[0].state.Load() == answered { // else its caller has left
		b.done <- struct{}{}
	}
}

// activities counts the lone calls and the entries, by a hash of their IDs. crowdedBit is set beside that number
// if the last shared call of a limiter had several callers, or was not its only call. Then callers
// share calls at once.
type activities struct {
	seed   maphash.Seed
	counts [1 << 14]atomic.Int32
}

const crowdedBit = 1 << 30

// of returns the counter of an ID. Few others have the same.
func (a *activities) of(id string) *atomic.Int32 {
	return &a.counts[maphash.String(a.seed, id)%uint64(len(a.counts))]
}

// newLone returns a batch for a lone call.
func (g *Engine) newLone() any {
	return &Batch{Requests: []*Request{new(Request)}, Full: g.denials != nil, done: make(chan struct{}, 1)}
}

// takeResult takes the result out of a request, whose caller it is, and clears the request for the next one.
func (l *Limiter) takeResult(ctx context.Context, r *Request, result *Result) error {
	err := r.Err
	*result = r.Result // before a hook, which may panic
	if r.call != nil {
		r.call.report(ctx, l)
	}
	r.Ask, r.Result, r.Err, r.batch, r.call = Ask{}, Result{}, nil, nil, nil
	return err
}

// share asks Redis with a call that other callers of the limiter share.
func (l *Limiter) share(ctx context.Context, ask Ask, result *Result) error {
	g := l.Engine
	ended := ctx.Done()
	r := g.requests.Get().(*Request) //nolint:errcheck,forcetypeassert // nothing else is there
	r.Ask = ask
	r.state.Store(queued)
	e := g.registry.lockEntry(l)
	if g.hooked && l.prefetches() {
		l.countForPrefetch(e, r)
	}
	b := l.addRequest(e, r)
	sends := g.reserveCall(e)
	inline := sends && ended == nil && b == e.first
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
		b = g.batches.Get().(*Batch) //nolint:errcheck,forcetypeassert // nothing else is there
		e.push(b)
	}
	r.batch = b
	b.Requests = append(b.Requests, r)
	b.open.permits += r.Most()
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

// takeFirst removes the first batch, whose requests are in flight from then on. The entry is locked.
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
	for l.runShared(ctx, e, l.dispatch(e)) {
		ctx = context.Background() // the values of ctx belong to a caller of the first batch
		if inline {
			go l.sendBatches(ctx, e, false)
			return
		}
	}
}

// runShared makes a shared call. It reports whether the entry has another batch to be sent.
func (l *Limiter) runShared(ctx context.Context, e *entry, b *Batch) (again bool) {
	b.err = redisx.ErrNoReply // unless the call returns
	defer func() { again = l.endShared(ctx, e, b) }()
	b.err = l.acquire(b.context(ctx), b)
	return false
}

// endShared ends a shared call. It reports whether the entry has another batch to be sent. If this goroutine ends,
// another one sends it.
func (l *Limiter) endShared(ctx context.Context, e *entry, b *Batch) (again bool) {
	g, aborted := l.Engine, b.err != nil && l.explainAbort(ctx, b)
	e.mu.Lock()
	l.finishRequests(b)
	var discarded release
	if g.hooked {
		discarded = l.hookAnswer(e, b)
	}
	if again = e.endCall(); again && aborted {
		again = false
		go l.sendBatches(context.Background(), e, false)
	}
	g.registry.unlockEntry(e)
	if g.hooked {
		l.hookEnd(b)
		discarded.runLater()
	}
	if len(b.Lost) > 0 {
		l.refundLost(ctx, b)
	}
	b.wakeShared()
	g.batches.Put(b)
	return again
}

// wakeShared wakes the callers of a shared batch, and clears it for reuse.
func (b *Batch) wakeShared() {
	clear(b.Requests)
	clear(b.Lost)
	done := b.done
	b.Requests, b.Prefetch, b.done, b.open = b.Requests[:0], Prefetch{}, nil, openBatch{}
	b.Outcome = Outcome{Lost: b.Lost[:0]}
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
		b.open.permits -= r.Most()
		at := slices.Index(b.Requests, r)
		b.Requests = slices.Delete(b.Requests, at, at+1)
	case inFlight:
		r.batch.sent.callers.Add(-1)
	}
	r.state.Store(abandoned)
	return true
}
