package engine

import (
	"context"
	"time"
)

// returnsFor is how many leases Flush gives back at once.
const returnsFor = 16

// giveBack gives back what is left of a lease.
type giveBack func(context.Context) error

// later gives back what nobody waits for, if there is anything: else it leaves the window.
func (b giveBack) later() {
	if b != nil {
		go func() { _ = b(Unattended(context.Background())) }()
	}
}

// giveBack is what gives back the permits that are left of a lease. It is to be called, and until it has done so Flush waits for it.
func (h *holding) giveBack(s *held) giveBack {
	left, back := s.left, s.Return
	s.left = 0
	if left == 0 {
		return nil
	}
	all, going := h.backs, &arrival{done: make(chan struct{})}
	all.Store(going, nil)
	return func(ctx context.Context) error {
		going.err = errBroken // until it returns
		defer func() {
			all.Delete(going)
			close(going.done)
		}()
		going.err = back(ctx, left)
		return going.err
	}
}

// spare gives back what is leased where a request could be served of that and what Redis has, but of neither alone. The
// reply that denied it reported what Redis has. The entry is locked.
func (h *holding) spare(permits int64) []giveBack {
	if h == nil || len(h.leases) == 0 {
		return nil
	}
	left := h.left(time.Now())
	if left == 0 || permits > h.free+left {
		return nil
	}
	return h.recall(nil)
}

// spare is that of a limiter, and says whether anything went back.
func (l *Limiter) spare(ctx context.Context, permits int64) (bool, error) {
	e := l.Engine.names.find(l.ID)
	if e == nil {
		return false, nil
	}
	backs := e.holding.spare(permits)
	l.Engine.names.unlock(e)
	if backs == nil {
		return false, nil
	}
	// Not Detached, which leaves it be where ctx has ended: nobody else has these permits any more.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, back := range backs {
			_ = back(Unattended(ctx)) // Redis says what it has, whatever came of this
		}
	}()
	select {
	case <-done:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// expire gives back what is left of leases that have ended, and forgets the limiter where nobody has asked for a while.
func (l *Limiter) expire(e *entry, h *holding) {
	e.mu.Lock()
	if e.holding != h {
		e.mu.Unlock()
		return
	}
	now := time.Now()
	var backs []giveBack
	kept := h.leases[:0]
	for i := range h.leases {
		if s := h.leases[i]; !s.over(now) && s.left > 0 {
			kept = append(kept, s)
		} else if back := h.giveBack(&s); back != nil {
			backs = append(backs, back)
		}
	}
	clear(h.leases[len(kept):])
	h.leases = kept
	if len(kept) > 0 || h.fetching || h.demand(now) > 0 {
		h.timer.Reset(h.next(now))
	} else {
		e.holding = nil
		l.Engine.holders.remove(l.ID, l.subjects())
	}
	l.Engine.names.unlock(e)
	for _, back := range backs {
		_ = back(Unattended(context.Background())) // else they leave the window
	}
}

// recall takes all leases of a subject's limiters back from their callers: what gives their permits back.
func (g *Engine) recall(subject string) (backs []giveBack) {
	if g.lease == 0 {
		return nil
	}
	for _, id := range g.holders.of(subject) {
		if e := g.names.find(id); e != nil {
			backs = e.holding.recall(backs)
			g.names.unlock(e)
		}
	}
	return backs
}

// recall is that of one limiter.
func (h *holding) recall(backs []giveBack) []giveBack {
	if h == nil {
		return backs
	}
	h.changes++
	for i := range h.leases {
		if back := h.giveBack(&h.leases[i]); back != nil {
			backs = append(backs, back)
		}
	}
	clear(h.leases)
	h.leases = h.leases[:0]
	return backs
}

// arrival is of a lease that is on its way, here or back, for Flush.
type arrival struct {
	done chan struct{} // closed once the lease has gone back, or there was none
	err  error         // set before
}

// await is what waits until a lease that is on its way has come and gone back; nil where none is. What is leased was recalled. The
// entry is locked.
func (h *holding) await() giveBack {
	if h == nil || !h.fetching {
		return nil
	}
	if h.awaited == nil {
		h.awaited = &arrival{done: make(chan struct{})}
	}
	a := h.awaited
	return func(context.Context) error {
		<-a.done
		return a.err
	}
}

// of is what gives back what came, and tells who waits; err is of the call that was to bring it.
func (a *arrival) of(came giveBack, err error) giveBack {
	switch {
	case a == nil:
		return came
	case came == nil:
		a.err = err
		close(a.done)
		return nil
	}
	return func(ctx context.Context) error {
		defer close(a.done)
		a.err = came(ctx)
		return a.err
	}
}

// Flush gives back all that is leased, and what calls that are under way bring, and tells one error of those that it met. It waits for
// what goes back by itself at that moment, too.
func (g *Engine) Flush(ctx context.Context) error {
	_, err := Detached(ctx, func(ctx context.Context) (struct{}, error) {
		var backs, awaited []giveBack // of leases that stay as they are where ctx has ended before
		for _, id := range g.names.ids() {
			e := g.names.find(id)
			if e == nil {
				continue
			}
			backs = e.holding.recall(backs)
			if a := e.holding.await(); a != nil {
				awaited = append(awaited, a)
			}
			g.names.unlock(e)
		}
		backs = append(backs, awaited...) // which may keep those behind them waiting
		var begun []*arrival
		for going := range g.backs.Range {
			begun = append(begun, going.(*arrival)) //nolint:errcheck,forcetypeassert // nothing else is there
		}
		slots, failed := make(chan struct{}, returnsFor), make(chan error, 1)
		failedWith := func(err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		}
		for _, back := range backs {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				failedWith(back(Unattended(ctx)))
			}()
		}
		for range returnsFor {
			slots <- struct{}{}
		}
		for _, going := range begun {
			<-going.done
			failedWith(going.err)
		}
		select {
		case err := <-failed:
			return struct{}{}, err
		default:
			return struct{}{}, nil
		}
	})
	return err
}
