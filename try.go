package rratelimiter

import (
	"context"
	"math"
	"slices"
	"strconv"
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
//	2 calls of 128, patience 3            1.58     14.7    24.0
//	2 calls of 256, patience 1            1.56     13.8    25.1
//	3 calls of 128, patience 3            1.47     14.9    25.4
//	1 call of 256, patience 1             1.35     13.0    23.4
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
	patience  = 3                // so often nobody came while a call gave way: it leaves
)

// tryAcquire asks for permits once, together with whoever asks at the same moment.
func (l *Limiter) tryAcquire(ctx context.Context, permits int64, detail bool) (Decision, error) {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return Decision{}, err
	}
	c := l.client
	if decision, denied := l.deny(permits); denied {
		return decision, nil
	}
	gone := ctx.Done()
	r := c.requests.Get().(*request)
	r.permits, r.detail = permits, detail
	e := c.names.lock(l)
	b := c.gather(e, r)
	lead := !e.leaving && e.calls < c.callLimit()
	if lead {
		e.leaving = true
		if e.calls++; e.calls == 1 {
			c.calling.Add(1)
		}
	}
	inline := lead && gone == nil && b == e.first
	if b.answered == nil && !inline {
		b.answered = make(chan struct{})
	}
	answers := b.answered
	e.mu.Unlock()

	switch {
	case inline:
		l.fly(ctx, e, true) // until this request is answered
	case lead:
		c.workers.fly(context.WithoutCancel(ctx), l, e)
		fallthrough
	default:
		select {
		case <-answers:
		case <-gone:
			if c.abandon(e, r) {
				return Decision{}, ctx.Err()
			}
			<-answers
		}
	}
	decision, err := r.result()
	*r = request{}
	c.requests.Put(r)
	return decision, err
}

// callLimit is how many calls for one limiter may be in flight at once.
func (c *Client) callLimit() int {
	if c.slow.Load() {
		return mostCalls
	}
	return fastCalls
}

// gather puts a request into the batch that gathers last, or into another one where that is full. The entry is locked.
func (c *Client) gather(e *entry, r *request) *batch {
	b := e.last
	// A call adds up no more than 2^53.
	if b == nil || len(b.requests) >= mostRequests || r.permits > maxPermits-b.permits {
		b = c.batches.Get().(*batch)
		b.detail = c.denials != nil
		e.push(b)
	}
	r.batch = b
	b.requests = append(b.requests, r)
	b.permits += r.permits
	b.live++
	return b
}

// abandon takes a caller whose context has ended out of its request. It says false where the answer is there already.
//
// While a call hangs nothing may gather for it but those who still wait: of a batch that gathers, at most half are
// abandoned requests.
func (c *Client) abandon(e *entry, r *request) bool {
	e.mu.Lock() // it may be another name's entry by now, but not before the answer is there
	defer e.mu.Unlock()
	switch r.state {
	case answered:
		return false
	case queued:
		b := r.batch
		b.permits -= r.permits
		b.live--
		r.state = abandoned
		switch {
		case b.live == 0 && (b != e.first || !e.leaving):
			e.remove(b)
		case b.live <= len(b.requests)/2:
			b.requests = slices.DeleteFunc(b.requests, func(r *request) bool { return r.state == abandoned })
		}
	}
	r.state = abandoned
	return true
}

// fly sends the batch that gathered first, and goes on as long as others have gathered meanwhile. Where it runs on the
// goroutine of a caller it sends one and leaves the rest to a goroutine of its own, since the caller has its answer by then.
func (l *Limiter) fly(ctx context.Context, e *entry, inline bool) {
	c := l.client
	for again := true; again; {
		c.yieldTo(e)
		e.mu.Lock()
		b := e.leave()
		if company := len(b.requests) > 1 || e.calls > 1; company != c.company.Load() {
			c.company.Store(company)
		}
		e.mu.Unlock()

		called := len(b.requests) > 0 // or all of its callers have gone
		known := c.denials.version(l.keys[configKey])
		var err error
		if called {
			err = l.acquire(ctx, b)
			if slow := time.Since(b.sent) >= slowCall; slow != c.slow.Load() {
				c.slow.Store(slow)
			}
		}

		e.mu.Lock()
		var lost int64
		for _, r := range b.requests {
			lost += r.deliver(err)
		}
		granted := b.granted(lost)
		again = e.first != nil && !e.leaving
		if again {
			e.leaving = true
		} else if e.calls--; e.calls == 0 {
			c.calling.Add(-1)
		}
		c.names.unlock(e)
		// The requests are their callers' from here on.
		clear(b.requests)
		if b.answered != nil {
			close(b.answered)
		}
		if again && inline {
			c.workers.fly(ctx, l, e)
			again = false
		}
		l.giveBack(ctx, b, granted, lost)
		if c.denials != nil && b.denied > 0 {
			l.remember(b, known)
		}
		b.clear()
		c.batches.Put(b)
	}
}

// yieldTo lets the callers that are about to join do so: those that the last reply woke, mostly. Where the last call had
// no company it costs a lone caller nothing.
func (c *Client) yieldTo(e *entry) {
	for size, nobody := 0, 0; nobody < patience && c.company.Load() && c.yields.yield(); {
		e.mu.Lock()
		now := len(e.first.requests)
		e.mu.Unlock()
		if now >= fullBatch {
			return
		}
		if now == size {
			nobody++
		} else {
			size, nobody = now, 0
		}
	}
}

// leave takes the batch that gathered first off, without the requests whose callers have gone. The entry is locked.
func (e *entry) leave() *batch {
	b := e.first
	e.remove(b)
	e.leaving = false
	if b.live < len(b.requests) {
		b.requests = slices.DeleteFunc(b.requests, func(r *request) bool { return r.state == abandoned })
	}
	for _, r := range b.requests {
		r.state = inFlight
	}
	return b
}

// giveBack frees what was granted, as a part of a batch's grant, to callers that had gone. Where that fails, or the grant
// is so large that it became several members, the permits come back by themselves after the interval.
//
// It names the grant, rather than releasing the oldest one: the answer may have come so late that the grant has left
// the window, or from a master that has lost its slots since.
func (l *Limiter) giveBack(ctx context.Context, b *batch, granted, permits int64) {
	if permits == 0 || granted > math.MaxUint32 {
		return
	}
	random := b.args[memberArg][:len(b.args[memberArg])-4]
	grant := string(appendUint32([]byte(random), granted))
	rest := ""
	if granted > permits {
		rest = string(appendUint32([]byte(random), granted-permits))
	}
	// Nobody waits for it, and nobody is there for a clock that panics.
	go func() {
		defer func() { _ = recover() }()
		_, _ = l.askChange(context.WithoutCancel(ctx), giveBackScript, l.client.nowText(), strconv.FormatInt(permits, 10), grant, rest)
	}()
}
