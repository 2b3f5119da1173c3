package gate

import (
	"context"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// sweepEvery is the time between sweeps of pauses that have ended.
const sweepEvery = time.Second

const maxPauses = 1 << 16

// longestPause is the longest pause of a limiter without a limit.Pause, even if a server asks for
// more.
const longestPause = time.Minute

// Pauses are the pauses that servers have asked of outgoing calls. No call with a limiter of a
// paused name is sent before the pause ends. The zero Pauses has none.
type Pauses struct {
	mu        sync.Mutex
	byName    map[string]pause
	nextSweep time.Time // the time of the next sweep
}

// pause is a pause of a name.
type pause struct {
	until time.Time
	// inRedis is set once Redis has the pause. From then on Redis decides, and the pause can be ended
	// there. While Redis is down, the pause holds.
	inRedis bool
}

// Add pauses a name, or extends its pause, and returns the end. A limiter without a name cannot be
// paused.
func (p *Pauses) Add(name string, d time.Duration) (until time.Time) {
	now := time.Now()
	until = now.Add(d)
	if name == "" {
		return until
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.After(p.nextSweep) {
		p.nextSweep = now.Add(sweepEvery)
		for name, one := range p.byName {
			if !one.until.After(now) {
				delete(p.byName, name)
			}
		}
	}
	before, ok := p.byName[name]
	if !ok && len(p.byName) >= maxPauses || until.Before(before.until) {
		return until
	}
	if p.byName == nil {
		p.byName = make(map[string]pause)
	}
	p.byName[name] = pause{until: until}
	return until
}

// markInRedis marks the pause of a name as one of Redis, unless it was extended since.
func (p *Pauses) markInRedis(name string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.byName[name]; ok && one.until.Equal(until) {
		p.byName[name] = pause{until, true}
	}
}

// left returns the rest of a name's pause. A pause that Redis has counts only without redis, which denies
// it by itself.
func (p *Pauses) left(name string, redis bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.byName[name]
	if !ok {
		return 0
	}
	left := time.Until(one.until)
	if left <= 0 {
		delete(p.byName, name)
	}
	if redis && one.inRedis {
		return 0
	}
	return max(0, left)
}

// pauseDeadline bounds the call that begins a pause in Redis. No caller waits for it.
const pauseDeadline = 10 * time.Second

// Pause pauses a limiter because a server asked for it: for the callers of the gate at once, and for
// all processes if it has a limit.Pause. If that call to Redis fails, the gate pauses alone.
func (g *Gate[R]) Pause(l outage.Limiter, d time.Duration) {
	if d <= 0 {
		return
	}
	d = min(d, mostOf(l))
	name := l.Name()
	until := g.pauses.Add(name, d)
	shared, ok := l.(interface {
		Pause(ctx context.Context, d time.Duration) error
	})
	if !ok {
		return
	}
	go func() {
		ctx, end := context.WithTimeout(context.Background(), pauseDeadline)
		defer end()
		if shared.Pause(ctx, d) == nil { // without a limit.Pause, it sends nothing and fails
			g.pauses.markInRedis(name, until)
		}
	}()
}

// mostOf returns the longest pause of a limiter by the answer of a server.
func mostOf(l outage.Limiter) time.Duration {
	most := time.Duration(0)
	for _, one := range outage.PoliciesOf(l) {
		if p, ok := policy.Plain(one).(limit.Pause); ok && (most == 0 || p.Most < most) {
			most = p.Most
		}
	}
	if most == 0 {
		return longestPause
	}
	return most
}
