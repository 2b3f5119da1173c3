package guard

import (
	"context"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

const mostPauses = 1 << 16

// LongestPause is the longest pause, even if a server asks for more.
const LongestPause = time.Hour

// Pauses are the pauses that servers have asked of outgoing calls. No call with a limiter of a
// paused name is sent before the pause ends. The zero Pauses has none.
type Pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
	clean time.Time // the time of the next sweep
}

// Add pauses a name, or extends its pause. A limiter without a name cannot be paused.
func (p *Pauses) Add(name string, d time.Duration) {
	if name == "" {
		return
	}
	now := time.Now()
	until := now.Add(min(d, LongestPause))
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.After(p.clean) {
		p.clean = now.Add(cleanEvery)
		for name, until := range p.until {
			if !until.After(now) {
				delete(p.until, name)
			}
		}
	}
	before, ok := p.until[name]
	if !ok && len(p.until) >= mostPauses || until.Before(before) {
		return
	}
	if p.until == nil {
		p.until = make(map[string]time.Time)
	}
	p.until[name] = until
}

// left returns the rest of a name's pause.
func (p *Pauses) left(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until[name]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(p.until, name)
	}
	return max(0, left)
}

// Ask decides an outgoing call. It waits for the end of a pause too, within the request's Wait.
func (p *Pauses) Ask(ctx context.Context, g *Guard, q Request) Answer {
	name := NameOf(q.Limiter)
	var until time.Time
	if q.Wait > 0 {
		until = time.Now().Add(q.Wait)
	}
	for {
		for left := p.left(name); left > 0; left = p.left(name) {
			denied := Answer{Result: Refused, Decision: rratelimiter.Decision{RetryAfter: left}}
			if q.Wait != Forever && time.Until(until) < left {
				return denied
			}
			if !q.waiting {
				if !g.enter() {
					denied.Err = ErrTooManyWaiting
					return denied
				}
				defer g.leave()
				q.waiting = true
			}
			if err := sleep(ctx, left); err != nil {
				return Answer{Result: Canceled, Err: err}
			}
		}
		if q.Wait > 0 {
			q.Wait = max(1, time.Until(until))
		}
		a := g.Ask(ctx, q)
		if !a.Result.Passes() || p.left(name) == 0 {
			return a
		}
		// The pause began during the wait, so the permit is too early: refund it. A permit that
		// cannot be refunded is lost.
		_ = g.Settle(ctx, q, a, 0)
	}
}
