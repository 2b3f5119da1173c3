package engine

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// Try asks for permits once, in one call with all callers that ask at the same time. It ends with
// ctx. If the call was sent by then, permits that arrive are released. A receipt.Slot of ctx gets the
// receipt, and whether Redis was asked, unless UpTo is set: such permits may be of several grants.
func (l *Limiter) Try(ctx context.Context, ask Ask) (result Result, err error) {
	slot := receipt.SlotOf(ctx)
	if slot == nil || ask.UpTo > 0 {
		return l.try(ctx, ask)
	}
	ask.Receipt, ask.Detail = true, true // a detailed reply has the time of the grant
	if result, err = l.try(ctx, ask); err == nil && result.From != FromRedis {
		slot.SetFromMemory()
	}
	if err == nil && result.Allowed {
		slot.Put(receipt.Receipt{Permits: result.Granted, Refund: result.Refund, Return: result.Return})
	}
	return result, err
}

func (l *Limiter) try(ctx context.Context, ask Ask) (Result, error) {
	if l.Engine.observer == nil {
		return l.Ask(ctx, ask)
	}
	observation := l.Observe(ask.Most())
	result, err := l.Ask(ctx, ask)
	if result.Allowed {
		observation.permits = result.Granted
	}
	observation.Report(ctx, result.Allowed, result.From, err)
	return result, err
}

// Ask is Try without a report of the decision, for a caller that reports it: see Observation.
func (l *Limiter) Ask(ctx context.Context, ask Ask) (result Result, err error) {
	for first := true; ; first = false {
		if l.fromLease(ask, &result) {
			return result, nil
		}
		if err = l.request(ctx, ask, &result); err != nil {
			return result, err
		}
		releases := l.addLeased(ask, &result, first)
		if releases == nil {
			return result, nil
		}
		runAll(ctx, releases) // if one fails, the next call shows what is free
		if err := ctx.Err(); err != nil {
			return result, err
		}
	}
}

// request is answered by Redis, or by the denial cache.
func (l *Limiter) request(ctx context.Context, ask Ask, result *Result) error {
	if l.Engine.denials != nil {
		if cached, denied := l.deny(ask); denied {
			*result = cached
			return nil
		}
	}
	if done, err := l.askAlone(ctx, ask, result); done {
		return err
	}
	g := l.Engine
	ended := ctx.Done()
	r := g.requests.Get().(*Request)
	r.Ask = ask
	e := g.registry.lockEntry(l)
	if l.leases() {
		l.ensureLeases(e, ask.Permits)
		// A denial then reports the free permits, which together with the leased ones may be
		// enough.
		r.Detail = r.Detail || e.leases.unused(time.Now()) > 0
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
		l.startSending(ctx, e)
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
			if g.abandon(e, r) {
				return ctx.Err()
			}
			<-answers
		}
	}
	r.call.report(ctx, l)
	var err error
	*result, err = r.Result, r.Err
	*r = Request{}
	g.requests.Put(r)
	return err
}
