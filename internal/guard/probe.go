package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// probeIdle is the time after the latest request during an outage for which a prober continues.
const probeIdle = time.Minute

// maxProbePause is the longest time between probes, unless the deadline is longer. Probes of a
// server that hangs pile up until rueidis closes its connection.
const maxProbePause = time.Second

// probeLocked starts a prober if Redis is down, or may be, and no prober runs. The lock is held.
func (b *breaker) probeLocked() {
	if (b.down.Load() || b.unsure) && !b.probing {
		b.probing, b.pause, b.stuckAt = true, b.deadline(), b.now()+b.probeTimeout()
		go b.probeOnce()
	}
}

// probeOnce asks Redis once. A timer calls it again after a pause, until Redis answers or no
// request has come for a minute.
func (b *breaker) probeOnce() {
	begin := time.Now()
	b.leave()
	if on, pause := b.next(); pause > 0 {
		b.observe(on, b.ask(on))
		time.AfterFunc(pause-time.Since(begin), b.probeOnce)
	}
}

// leave ends the outage of a node that the target's calls no longer go to: after a failover, or if the
// slots were not known. Its requests ask another node.
func (b *breaker) leave() {
	defer func() { _ = recover() }() // of the callback
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down.Load() && b.target.limiter != nil && nodeOf(b.target.limiter, true) != b.node {
		b.setLocked(true, nil)
	}
}

// next returns the target of the next probe and the time until the one after it. That time doubles
// with each probe. If next returns 0, the prober ends.
func (b *breaker) next() (target, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	needed := (b.down.Load() || b.unsure) && b.target.limiter != nil
	b.probing = needed && now-b.lastRequest < int64(probeIdle)
	if !b.probing {
		return target{}, 0
	}
	pause := b.pause
	b.pause = max(b.deadline(), min(2*pause, maxProbePause))
	b.stuckAt = now + int64(pause) + b.probeTimeout()
	return b.target, pause
}

// observe records the result of a probe. A panic of the callback is dropped, since no request made
// the call.
func (b *breaker) observe(on target, err error) {
	defer func() { _ = recover() }()
	b.mu.Lock()
	unsure := b.unsure
	b.unsure = false
	if errors.Is(err, rueidis.ErrClosing) {
		b.target = target{} // the client is closed: no other probe
	}
	b.mu.Unlock()
	switch statusOf(err) {
	case callAnswered:
		b.succeeded()
		b.mu.Lock()
		b.pause = b.deadline() // for callers that wait, see whileUp
		b.mu.Unlock()
	case callFailed:
		if unsure {
			err = b.failure(on.limiter, err)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.setLocked(false, err)
		}
	}
}

// ask asks whether Redis can grant. It takes no permits of a limiter of this library, see
// [inside.Probe]. Of another type it calls Peek or AvailablePermits; without these, it takes a permit,
// and releases it if possible. A panic of the limiter becomes an error.
func (b *breaker) ask(on target) (err error) {
	ctx, cancel := context.WithTimeout(on.ctx, b.deadline())
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("rratelimiter: a probe of Redis panicked: %v", reason)
		}
	}()
	l := unwrap(on.limiter)
	if _, _, known := inside.NodeOf(l); known {
		return inside.Probe(ctx, l)
	}
	switch l := l.(type) {
	case interface {
		Peek(ctx context.Context) ([]rratelimiter.Decision, error)
	}:
		_, err = l.Peek(ctx)
	case interface {
		AvailablePermits(ctx context.Context) (int64, error)
	}:
		_, err = l.AvailablePermits(ctx)
	default:
		var d rratelimiter.Decision
		slot := receipt.Collect(ctx)
		if d, err = l.Take(slot, 1); err == nil && d.Allowed {
			_ = settle(ctx, l, slot.Of(1), -1) // without Release the permit stays taken
		}
	}
	return err
}
