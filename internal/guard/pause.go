package guard

import (
	"context"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

const maxPauses = 1 << 16

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
	if !ok && len(p.until) >= maxPauses || until.Before(before) {
		return
	}
	if p.until == nil {
		p.until = make(map[string]time.Time)
	}
	p.until[name] = until
}

// pauseDeadline bounds the call that begins a pause in Redis. No caller waits for it.
const pauseDeadline = 10 * time.Second

// Pause pauses a limiter because a server asked for it: for the callers of the gate at once, and for
// all processes if it has a limit.Pause. If that call to Redis fails, the gate pauses alone.
func (g *Gate) Pause(l Limiter, d time.Duration) {
	d = min(d, LongestPause)
	g.Pauses.Add(NameOf(l), d)
	shared, ok := l.(interface {
		Pause(ctx context.Context, d time.Duration) error
	})
	if !ok {
		return
	}
	go func() {
		ctx, end := context.WithTimeout(context.Background(), pauseDeadline)
		defer end()
		_ = shared.Pause(ctx, d) // without a limit.Pause, it sends nothing
	}()
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

func (q *Request) paused() (Answer, bool) {
	if q.Pauses == nil {
		return Answer{}, false
	}
	left := q.Pauses.left(NameOf(q.Limiter))
	return Answer{Result: Rejected, Decision: rratelimiter.Decision{RetryAfter: left}}, left > 0
}
