package outage

// Whether a node of Redis is up: a breaker for each node, and a prober for each that is down or may be.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// node is a node of Redis: a single server, or a master of a Redis Cluster. Limiters of other types, which
// wrap none of this library, share the zero node.
type node struct {
	engine *engine.Engine
	name   string // its address on a cluster; "" for a single server, and until the slots are known
}

// nodeOf returns the node that a limiter's calls go to. With moved, a failover of a second ago counts.
func nodeOf(l Limiter, moved bool) node {
	if h := handleOf(unwrap(l)); h != nil {
		if g, key, ok := h.Node(); ok {
			return node{g, g.Nodes.Node(key, moved)}
		}
	}
	return node{}
}

// address returns the address of the node, "" if it is unknown.
func (n node) address() string {
	if n.engine == nil {
		return ""
	}
	return n.engine.Nodes.Address(n.name)
}

// String returns the node for errors.
func (n node) String() string {
	if address := n.address(); address != "" {
		return "Redis at " + address
	}
	return "Redis"
}

// breakerOf returns the breaker of a limiter's node.
func (g *Guard) breakerOf(l Limiter) *breaker {
	on := nodeOf(l, false)
	b, ok := g.breakers.Load(on)
	if !ok {
		b, _ = g.breakers.LoadOrStore(on, &breaker{clock: clock{time.Now()}, node: on, deadlines: &g.deadlines,
			reports: g.reports})
	}
	return b.(*breaker) //nolint:errcheck,forcetypeassert // nothing else is there
}

// breaker is a circuit breaker for the calls to a node of Redis, see the package. Its states are
// called up and down, since Open and Closed are failure modes. It starts as up.
type breaker struct {
	clock
	node      node
	deadlines *atomic.Int64 // of the Guard
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

// allows reports whether a request may ask Redis while it is down. Only the prober asks. If it has ended, or
// is stuck in a call, one request asks as well.
func (b *breaker) allows(ctx context.Context, l Limiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.down.Load() {
		return true
	}
	b.setTargetLocked(ctx, l)
	if !b.probing { // after a minute without requests: the prober keeps the others back
		b.probeLocked()
		return true
	}
	stuck := b.lastRequest >= b.stuckAt
	if stuck {
		b.stuckAt = b.lastRequest + b.probeTimeout()
	}
	return stuck
}

// setTargetLocked makes the limiter of a request the target of the next probe. The lock is held.
func (b *breaker) setTargetLocked(ctx context.Context, l Limiter) {
	b.lastRequest, b.target = b.now(), target{context.WithoutCancel(ctx), l}
}

// probeTimeout returns the nanoseconds after which a probe counts as stuck.
func (b *breaker) probeTimeout() int64 { return 10 * int64(b.deadline()) }

// recordAnswer records an answer of Redis to a request. One that did not grant ends no outage, since it
// does not show that Redis can grant: a probe finds that out.
func (b *breaker) recordAnswer(ctx context.Context, l Limiter) {
	b.lastAnswer.Store(b.now())
	if b.down.Load() {
		b.verify(ctx, l)
	}
}

// recordUp records that Redis can grant now.
func (b *breaker) recordUp() {
	b.lastAnswer.Store(b.now())
	if b.down.Load() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.setLocked(true, nil)
	}
}

// callStatus is what the error of a call reveals about Redis. IsMistake depends on the order.
type callStatus int

const (
	callNotSent callStatus = iota
	callAnswered
	callErrorReply // by an error reply, which is an answer
	callFailed     // Redis may be down
)

// statusOf returns what the error of a call reveals about Redis.
func statusOf(err error) callStatus {
	var state *rratelimiter.StateError
	if err == nil || errors.Is(err, rratelimiter.ErrNotInitialized) || errors.As(err, &state) {
		return callAnswered
	}
	for _, neverSent := range []error{
		rratelimiter.ErrInvalidPermits, rratelimiter.ErrInvalidRate, rratelimiter.ErrInvalidName,
		rratelimiter.ErrInvalidOption, rratelimiter.ErrCrossSlot, rratelimiter.ErrNoClient,
		limit.ErrNotChargeable, errors.ErrUnsupported,
	} {
		if errors.Is(err, neverSent) {
			return callNotSent
		}
	}
	if redisx.Answers(err) {
		return callErrorReply
	}
	return callFailed
}

// IsMistake reports whether an error is a mistake of the program and no failure of Redis: invalid
// arguments, a limiter without a rate, or a key with other data.
func IsMistake(err error) bool { return err != nil && statusOf(err) < callErrorReply }

// recordError records the error of a call.
func (b *breaker) recordError(ctx context.Context, l Limiter, err error) {
	switch statusOf(err) {
	case callAnswered, callErrorReply:
		b.recordAnswer(ctx, l)
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
	if !up {
		b.address = b.node.address()
	}
	b.reports.add(transition{b.address, up, err})
	b.mu.Unlock()
	defer b.mu.Lock()
	b.reports.run()
}

// explain returns the error of a call that Redis has not decided: with the limiter, the node and the
// deadline.
func (b *breaker) explain(l Limiter, err error) error {
	if err == nil || IsMistake(err) || errors.Is(err, ErrDown) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", b.deadline(), err)
	}
	return &callError{l.Name(), b.node, err}
}

// callError is the error of a call that Redis has not decided. It is ErrDown if the call was not sent.
type callError struct {
	limiter string
	node    node
	err     error
}

func (e *callError) Error() string {
	if errors.Is(e.err, ErrDown) {
		return fmt.Sprintf("rratelimiter: limiter %q: %s is down: the call was not sent", e.limiter, e.node)
	}
	return fmt.Sprintf("rratelimiter: limiter %q: %s: %v", e.limiter, e.node, e.err)
}

func (e *callError) Unwrap() error { return e.err }

// notSent is the error of a request that is decided without a call to its node, since that is down.
func (b *breaker) notSent(l Limiter) error { return &callError{l.Name(), b.node, ErrDown} }

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
	b.endIfMoved()
	if on, pause := b.next(); pause > 0 {
		b.observe(on, b.probe(on))
		time.AfterFunc(pause-time.Since(begin), b.probeOnce)
	}
}

// endIfMoved ends the outage of a node that the target's calls no longer go to: after a failover, or if the
// slots were not known. Its requests ask another node.
func (b *breaker) endIfMoved() {
	defer func() { _ = recover() }() // of the callback
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down.Load() && b.target.limiter != nil && nodeOf(b.target.limiter, true) != b.node {
		b.setLocked(true, nil)
	}
}

// next returns the target of the next probe and the time until the one after it. That time doubles
// with each probe, up to a second. If next returns 0, the prober ends.
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
	status, explained := statusOf(err), b.explain(on.limiter, err) // by methods of the user's, so without the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	unsure := b.unsure
	b.unsure = false
	if errors.Is(err, rueidis.ErrClosing) {
		b.target = target{} // the client is closed: no other probe
	}
	switch status {
	case callAnswered, callErrorReply:
		b.lastAnswer.Store(b.now())
		b.pause = b.deadline() // for callers that wait, see whileUp
		if b.down.Load() {
			b.setLocked(true, nil)
		}
	case callFailed:
		if unsure {
			b.setLocked(false, explained)
		}
	}
}

// probe probes Redis. A panic of a limiter of another type becomes an error.
func (b *breaker) probe(on target) (err error) {
	ctx, cancel := context.WithTimeout(on.ctx, b.deadline())
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("rratelimiter: a probe of Redis panicked: %v", reason)
		}
	}()
	return probe(ctx, on.limiter)
}

// reports calls a callback for each change of the state of a node, one at a time and in order.
type reports struct {
	changed func(node string, up bool, err error) // may be nil

	mu      sync.Mutex
	changes []transition
	running bool
}

type transition struct {
	node string
	up   bool
	err  error
}

// add queues a change.
func (r *reports) add(c transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != nil {
		r.changes = append(r.changes, c)
	}
}

// run calls the callback for the queued changes, even if it panics, unless another goroutine does. No lock is
// held during the callback.
func (r *reports) run() {
	r.mu.Lock()
	if r.running || len(r.changes) == 0 {
		r.mu.Unlock()
		return
	}
	next := r.changes[0]
	r.changes, r.running = r.changes[1:], true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
		r.run()
	}()
	r.changed(next.node, next.up, next.err)
}

// FailureLog logs the outages of nodes of Redis, and requests that cannot be decided for another
// cause, such as a key of another type.
type FailureLog struct {
	Log              *slog.Logger
	Up, Down, Failed string // the lines

	mu   sync.Mutex
	down int       // nodes
	last time.Time // of a line Failed
}

// failureInterval is the time between two lines about requests.
const failureInterval = 30 * time.Second

// RedisChanged logs the begin or the end of an outage.
func (l *FailureLog) RedisChanged(node string, up bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if up {
		l.down--
		l.Log.Info(l.Up, "node", node)
		return
	}
	l.down++
	var failed *callError
	if errors.As(err, &failed) {
		err = failed.err // the limiter is that of any customer
	}
	l.Log.Error(l.Down, "node", node, "error", err)
}

// RequestFailed logs a request that cannot be decided, unless an outage is the cause.
func (l *FailureLog) RequestFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down > 0 && statusOf(err) == callFailed {
		return
	}
	if now := time.Now(); now.Sub(l.last) >= failureInterval {
		l.last = now
		l.Log.Error(l.Failed, "error", err)
	}
}
