package outage

// The prober of a node that is down, or may be.

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// probeIdle is the time after the latest request during an outage for which a prober continues.
const probeIdle = time.Minute

// maxProbePause is the longest time between probes, unless the deadline is longer. Probes of a
// server that hangs pile up until rueidis closes its connection.
const maxProbePause = time.Second

// prober asks a node until it answers. It ends when the node is up, or no request has come for a minute.
type prober struct {
	due   int64         // when it asks, or has asked if that call has not ended; 0 if it does not run
	pause time.Duration // from the next probe to the one after it
	timer *time.Timer   // of the next probe; nil before the first one
}

// probeLocked starts the prober, and reports whether it did: one may run. The lock is held.
func (b *breaker) probeLocked() bool {
	if b.prober.due != 0 {
		return false
	}
	b.prober = prober{due: b.now(), pause: b.guard.Deadline()}
	go b.probeOnce()
	return true
}

// stopProbeLocked ends the prober, unless a probe has begun: then that one does. The lock is held.
func (b *breaker) stopProbeLocked() {
	if b.prober.timer != nil && b.prober.timer.Stop() {
		b.prober = prober{}
	}
}

// probeOnce asks Redis once. A timer calls it again after a pause, unless the node is up.
func (b *breaker) probeOnce() {
	begin := time.Now()
	b.endIfMoved()
	on, pause := b.next()
	if pause == 0 {
		return
	}
	b.observe(on, b.probe(on))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.Load() == nodeUp {
		b.prober = prober{}
	} else {
		b.prober.timer = time.AfterFunc(pause-time.Since(begin), b.probeOnce)
	}
}

// endIfMoved ends the outage of a node that the target's calls no longer go to: after a failover, or if the
// slots were not known. Its requests ask another node. The node itself has not answered.
func (b *breaker) endIfMoved() {
	defer func() { _ = recover() }() // of the callback
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isDown() || b.target.limiter == nil {
		return
	}
	if now := nodeOf(b.target.limiter, true); now != b.node {
		b.changeLocked(nodeUp, &movedError{b.node, now})
	}
}

// next returns the target of the next probe and the time until the one after it. That time doubles
// with each probe, up to a second. If next returns 0, the prober ends.
func (b *breaker) next() (target, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, pause := b.now(), b.prober.pause
	if b.state.Load() == nodeUp || b.target.limiter == nil || now-b.lastRequest >= int64(probeIdle) {
		b.prober = prober{}
		return target{}, 0
	}
	b.prober.due, b.prober.pause = now+int64(pause), max(b.guard.Deadline(), min(2*pause, maxProbePause))
	return b.target, pause
}

// observe records the result of a probe. A panic of the callback is dropped, since no request made
// the call.
func (b *breaker) observe(on target, err error) {
	defer func() { _ = recover() }()
	status, explained := statusOf(err), b.explain(on.limiter, err) // by methods of the user's, so without the lock
	var moved error
	if b.isDown() && (status == callAnswered || status == callErrorReply) {
		moved = b.moved(on.limiter)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, rueidis.ErrClosing) {
		b.target = target{} // the client is closed: no other probe
	}
	switch {
	case status == callAnswered || status == callErrorReply:
		b.lastAnswer.Store(b.now())
		b.changeLocked(nodeUp, moved)
	case b.isDown():
	case status == callFailed && b.state.Load() == nodeUnsure && b.isSilent():
		b.changeLocked(nodeDown, explained)
	default:
		b.changeLocked(nodeUp, nil)
	}
}

// probe probes Redis for a target.
func (b *breaker) probe(on target) error {
	ctx, cancel := context.WithTimeout(on.ctx, b.guard.Deadline())
	defer cancel()
	return probe(ctx, on.limiter)
}

// probe asks whether Redis can grant. It sets a key of its own for a millisecond, unless there is one: a call that only
// reads would succeed where writes fail.
func probe(ctx context.Context, l Limiter) error {
	h, err := handleOf(l)
	if err != nil {
		return err
	}
	g, key, ok := h.Node()
	if !ok {
		return CheckLimiter(l)
	}
	_, err = engine.Detach(ctx, func(ctx context.Context) (m rueidis.RedisMessage, err error) {
		defer func() {
			if recover() != nil { // of the client: no request made the call
				err = redisx.ErrNoReply
			}
		}()
		set := g.Redis().B().Set().Key("{" + redisx.Tag(key) + "}:probe").Value("").Nx().PxMilliseconds(1).Build()
		return redisx.Do(ctx, g.Redis(), set)
	})
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
