package engine

import "context"

// Try asks for permits once, in one call with all callers of the limiter that ask at the same time. It
// ends with ctx. If the call was sent by then, permits that arrive are released.
func (l *Limiter) Try(ctx context.Context, ask Ask, result *Result) error {
	if l.Engine.hooked {
		return l.tryHooked(ctx, ask, result)
	}
	return l.ask(ctx, ask, result)
}

// ask asks Redis: with a call of its own if the limiter has no other caller, else with a shared one. An
// entry and a shared batch would cost a lone caller more than the rest of its call.
func (l *Limiter) ask(ctx context.Context, ask Ask, result *Result) error {
	g := l.Engine
	busy := g.registry.busy.of(l.ID)
	if l.leases() || !busy.CompareAndSwap(0, 1) {
		return l.share(ctx, ask, result)
	}
	b := g.lone.Get().(*Batch) //nolint:errcheck,forcetypeassert // nothing else is there
	r := b.Requests[0]
	r.Ask, b.receipts, b.busy = ask, ask.Receipt, busy
	r.state.Store(inFlight)
	b.sent.callers.Store(1)
	ended := ctx.Done()
	if ended == nil {
		l.run(ctx, nil, b)
	} else {
		g.workers.run(task{l, ctx, nil, b})
	}
	select {
	case <-b.answered:
	case <-ended:
		if r.state.CompareAndSwap(inFlight, abandoned) {
			b.sent.callers.Store(0)
			return ctx.Err()
		}
		<-b.answered
	}
	err := l.take(ctx, r, result)
	g.lone.Put(b)
	return err
}

// newLone returns a batch for a lone call.
func (g *Engine) newLone() any {
	return &Batch{Requests: []*Request{new(Request)}, Full: g.denials != nil, answered: make(chan struct{}, 1)}
}

// take takes the result out of a request, whose caller it is, and clears the request for the next one.
func (l *Limiter) take(ctx context.Context, r *Request, result *Result) error {
	if r.call != nil {
		r.call.report(ctx, l)
	}
	err := r.Err
	*result = r.Result
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
	if l.leases() {
		l.countForLease(e, r)
	}
	b := l.addRequest(e, r)
	sends := g.reserveCall(e)
	inline := sends && ended == nil && b == e.first
	if b.answered == nil && !inline {
		b.answered = make(chan struct{})
	}
	answers := b.answered
	e.mu.Unlock()

	if sends && !inline {
		g.workers.run(task{l, ctx, e, nil})
	}
	switch {
	case inline:
		l.sendBatches(ctx, e, true) // until this request is answered
	case ended == nil:
		<-answers // a select takes longer
	default:
		select {
		case <-answers:
		case <-ended:
			if abandon(e, r) {
				return ctx.Err()
			}
			<-answers
		}
	}
	err := l.take(ctx, r, result)
	g.requests.Put(r)
	return err
}
