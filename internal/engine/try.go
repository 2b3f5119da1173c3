package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"
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

// Try asks for permits once, in one call with all callers that ask at the same time. It ends with ctx. If the call was sent by
// then, permits that arrive are released.
func (l *Limiter) Try(ctx context.Context, ask Ask) (Result, error) {
	asking := l.Asking(ask.Permits)
	result, err := l.Ask(ctx, ask)
	asking.Tell(ctx, result.Allowed, result.From, err)
	return result, err
}

// Ask is Try that leaves it to its caller to tell of the decision: see Asking.
func (l *Limiter) Ask(ctx context.Context, ask Ask) (Result, error) {
	if !l.leases() {
		return l.try(ctx, ask)
	}
	result, err := l.tryLeased(ctx, ask)
	if err != nil || result.Allowed {
		return result, err
	}
	if spared, err := l.spare(ctx, ask.Permits); !spared {
		return result, err
	}
	return l.tryLeased(ctx, ask) // another call may have brought a lease meanwhile
}

// tryLeased is try where what is leased comes first.
func (l *Limiter) tryLeased(ctx context.Context, ask Ask) (Result, error) {
	if answer, parts, ok := l.fromLease(ask); ok {
		r := Result{Answer: answer, From: FromLease}
		if parts != nil {
			r.Extra = parts
		}
		return r, nil
	}
	return l.try(ctx, ask)
}

// try is Try of Redis, or of what it said.
func (l *Limiter) try(ctx context.Context, ask Ask) (Result, error) {
	if l.Engine.denials != nil {
		if result, denied := l.deny(ask); denied {
			return result, nil
		}
	}
	return l.request(ctx, ask)
}

// request is Try of Redis.
func (l *Limiter) request(ctx context.Context, ask Ask) (result Result, err error) {
	g := l.Engine
	gone, late := ends(ctx)
	r := g.requests.Get().(*Request)
	r.Permits, r.Detail, r.Each, r.Within = ask.Permits, ask.Detail, ask.Each, ask.Within
	e := g.names.lock(l)
	if l.leases() {
		l.hold(e, ask.Permits)
		// A denial is to report then what is free, which together with what is leased may be enough.
		r.Detail = r.Detail || e.holding.left(time.Now()) > 0
	}
	b := l.gather(e, r)
	lead := g.lead(e)
	inline := lead && gone == nil && late == nil && b == e.first
	if b.answered == nil && !inline {
		b.answered = make(chan struct{})
	}
	answers := b.answered
	e.mu.Unlock()

	switch {
	case !lead || inline:
	case g.pipelines():
		l.sendPiped(ctx, e)
	default:
		l.carryLater(context.WithoutCancel(ctx), e)
	}
	switch {
	case inline:
		l.carry(ctx, e, true) // until this request is answered
	case gone == nil && late == nil:
		<-answers // which costs less than a select
	default:
		if leaves(answers, gone, late) {
			if g.abandon(e, r) {
				return result, ctx.Err()
			}
			<-answers
		}
	}
	r.call.tell(ctx, l)
	result, err = r.result()
	*r = Request{}
	g.requests.Put(r)
	return result, err
}

// lead says whether another call may be in flight, and counts it if so: it is about to leave. The entry is locked.
func (g *Engine) lead(e *entry) bool {
	if e.leaving || e.calls >= g.callLimit() {
		return false
	}
	e.leaving = true
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
func (l *Limiter) gather(e *entry, r *Request) *Batch {
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
		case b.live == 0 && (b != e.first || !e.leaving):
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
