package guard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// breaker is a circuit breaker for the calls to a node of Redis, see the package. Its states are
// called up and down, since Open and Closed are failure modes. It starts as up.
type breaker struct {
	clock
	node      node
	deadlines *atomic.Int64 // of [Shared]
	reports   *reports

	down       atomic.Bool
	lastAnswer atomic.Int64 // its time, 0 for none

	mu          sync.Mutex
	unsure      bool          // a probe has to find out whether Redis is up
	probing     bool          // a prober runs
	pause       time.Duration // between probes
	lastRequest int64         // the time of the latest request during an outage
	target      target        // of the next probe: the limiter of that request
	stuckAt     int64         // the time at which a probe counts as stuck
	reported    bool          // as down
	address     string        // of the node in that report: it may be unknown until Redis is reached
}

// target is what a probe calls: the limiter of a request, with the values of its context.
type target struct {
	ctx     context.Context
	limiter Limiter
}

// clock counts nanoseconds since its start, from 1. It is monotonic.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) + 1 }

func (b *breaker) deadline() time.Duration { return time.Duration(b.deadlines.Load()) }

func (b *breaker) isDown() bool { return b.down.Load() }

// allows reports whether a request may ask Redis. While Redis is down, only the prober asks. If no
// prober runs, or if it is stuck in a call, a request asks in its place.
func (b *breaker) allows(ctx context.Context, l Limiter) bool {
	if !b.down.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.down.Load() {
		return true
	}
	b.setTargetLocked(ctx, l)
	if !b.probing {
		return true
	}
	late := b.lastRequest >= b.stuckAt
	if late {
		b.stuckAt = b.lastRequest + b.probeTimeout()
	}
	return late
}

// setTargetLocked makes the limiter of a request the target of the next probe. The lock is held.
func (b *breaker) setTargetLocked(ctx context.Context, l Limiter) {
	b.lastRequest, b.target = b.now(), target{context.WithoutCancel(ctx), l}
}

// probeTimeout returns the nanoseconds after which a probe counts as stuck.
func (b *breaker) probeTimeout() int64 { return 10 * int64(b.deadline()) }

// answered records an answer of Redis to a request. One that did not grant ends no outage, since it
// does not show that Redis can grant: a probe finds that out.
func (b *breaker) answered(ctx context.Context, l Limiter) {
	b.lastAnswer.Store(b.now())
	if b.down.Load() {
		b.verify(ctx, l)
	}
}

// succeeded records that Redis has granted now.
func (b *breaker) succeeded() {
	b.lastAnswer.Store(b.now())
	if b.down.Load() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.setLocked(true, nil)
	}
}

// callStatus is what the error of a call reveals about Redis.
type callStatus int

const (
	callNotSent callStatus = iota
	callAnswered
	callFailed // Redis may be down
)

// statusOf returns what the error of a call reveals about Redis.
func statusOf(err error) callStatus {
	var state *rratelimiter.StateError
	if err == nil || errors.Is(err, rratelimiter.ErrNotInitialized) || errors.As(err, &state) {
		return callAnswered
	}
	for _, neverSent := range []error{
		rratelimiter.ErrInvalidPermits, rratelimiter.ErrInvalidRate, rratelimiter.ErrInvalidName,
		rratelimiter.ErrInvalidOption,
		rratelimiter.ErrCrossSlot, rratelimiter.ErrNoClient, limit.ErrNotChargeable, errors.ErrUnsupported,
	} {
		if errors.Is(err, neverSent) {
			return callNotSent
		}
	}
	return callFailed
}

// IsMistake reports whether an error is a mistake of the program and no failure of Redis: invalid
// arguments, a limiter without a rate, or a key with other data.
func IsMistake(err error) bool { return err != nil && statusOf(err) != callFailed }

func (b *breaker) failed(ctx context.Context, l Limiter, err error) {
	switch statusOf(err) {
	case callAnswered:
		b.answered(ctx, l)
	case callFailed:
		if !b.down.Load() && !b.isSilent() {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.setTargetLocked(ctx, l)
		b.setLocked(false, err)
	}
}

// verify starts a probe unless Redis has answered lately: a caller may leave before an answer arrives.
func (b *breaker) verify(ctx context.Context, l Limiter) {
	if !b.down.Load() && !b.isSilent() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setTargetLocked(ctx, l)
	b.unsure = !b.down.Load()
	b.probeLocked()
}

// isSilent reports whether Redis has answered no call for the time of the deadline.
func (b *breaker) isSilent() bool {
	last := b.lastAnswer.Load()
	return last == 0 || b.now()-last >= int64(b.deadline())
}

// setLocked changes the state, starts the prober of an outage, and reports the change. The lock is
// held.
func (b *breaker) setLocked(up bool, err error) {
	before := !b.down.Swap(!up)
	// A call that is answered records the answer before it reads the state, so one of the two
	// goroutines sees the other.
	if before && !up && !b.isSilent() {
		b.down.Store(false)
		return
	}
	if up {
		b.target = target{}
	}
	b.probeLocked()
	if before != up {
		b.reportLocked(up, err)
	}
}

// reportLocked reports a change. The lock is held, but not during the callback.
func (b *breaker) reportLocked(up bool, err error) {
	if b.reported != up {
		return
	}
	b.reported = !up
	if !up {
		b.address = b.node.address()
	}
	b.reports.add(change{b.address, up, err})
	b.mu.Unlock()
	defer b.mu.Lock()
	b.reports.run()
}
