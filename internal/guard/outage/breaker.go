package outage

// Whether a node of Redis is up: a breaker for each node, and a prober while the node is down, or may be.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// node is a node of Redis: a single server, or a master of a Redis Cluster. Invalid limiters share the zero node.
type node struct {
	engine *engine.Engine
	name   string // its address on a cluster; "" for a single server, and until the slots are known
}

// nodeOf returns the node that a limiter's calls go to. With moved, a failover of a second ago counts.
func nodeOf(l limit.Joinable, moved bool) node {
	if h, ok := inside.HandleOf(l); ok {
		if g, key, ok := h.Node(); ok {
			return node{g, g.Nodes.Node(key, moved)}
		}
	}
	return node{}
}

// nodeNow is nodeOf with the slots of this moment, unless their answer takes longer.
func nodeNow(l limit.Joinable, within time.Duration) node {
	if h, ok := inside.HandleOf(l); ok {
		if g, key, ok := h.Node(); ok {
			return node{g, g.Nodes.NodeNow(key, within)}
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

// slots returns the version of the slots by which a limiter has this node.
func (n node) slots() uint64 {
	if n.engine == nil {
		return 0
	}
	return n.engine.Nodes.Version()
}

// String returns the node for errors.
func (n node) String() string {
	if address := n.address(); address != "" {
		return "Redis at " + address
	}
	return "Redis"
}

// nodes are the nodes of Redis that the calls of a Guard go to.
type nodes struct {
	deadline atomic.Int64 // nanoseconds
	breakers sync.Map     // node to *breaker
	waiters  waiters
	reports  reports
}

// Deadline returns the deadline of calls and probes.
func (n *nodes) Deadline() time.Duration { return time.Duration(n.deadline.Load()) }

// breakerOf returns the breaker of a limiter's node.
func (n *nodes) breakerOf(l limit.Joinable) *breaker {
	on := nodeOf(l, false)
	b, ok := n.breakers.Load(on)
	if !ok {
		b, _ = n.breakers.LoadOrStore(on, &breaker{clock: clock{time.Now()}, node: on, nodes: n})
	}
	return b.(*breaker) //nolint:errcheck,forcetypeassert // nothing else is there
}

// breaker is a circuit breaker for the calls to a node of Redis, see the package. It starts as up.
type breaker struct {
	clock
	node  node
	nodes *nodes

	state      atomic.Int32 // only setStateLocked sets it
	lastAnswer atomic.Int64 // its time, 0 for none

	mu          sync.Mutex
	prober      prober
	lastRequest int64  // the time of the latest request during an outage
	target      target // of the next probe: the limiter of that request
	address     string // of the node in the report of an outage: it may be unknown until Redis is reached
}

// The states of a node.
const (
	nodeUp     = iota // requests ask it
	nodeUnsure        // they do, and a probe finds out whether it is up
	nodeDown          // they do not, and probes find out when it is up
)

// target is what a probe calls: the limiter of a request, with the values of its context.
type target struct {
	ctx     context.Context
	limiter limit.Joinable
}

// clock counts nanoseconds since its start, from 1. It is monotonic.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) + 1 }

func (b *breaker) isDown() bool { return b.state.Load() == nodeDown }

// isSilent reports whether Redis has answered no call for the time of the deadline.
func (b *breaker) isSilent() bool {
	last := b.lastAnswer.Load()
	return last == 0 || b.now()-last >= int64(b.nodes.Deadline())
}

// setStateLocked changes the state. A node that has just answered does not go down. The prober of a node that is not
// up runs. An outage ends the waits, and its begin and end are reported. err began it, or is a movedError.
// The lock is held.
func (b *breaker) setStateLocked(to int32, err error) {
	before := b.state.Swap(to)
	// A call that is answered records the answer before it reads the state, so one of the two
	// goroutines sees the other.
	if to == nodeDown && before != nodeDown && !b.isSilent() {
		b.state.Store(before)
		return
	}
	if to == nodeUp {
		b.target = target{}
		b.stopProbeLocked()
	} else {
		b.startProberLocked()
	}
	if (before == nodeDown) == (to == nodeDown) {
		return
	}
	if to == nodeDown {
		b.nodes.waiters.end(b, time.Now())
	}
	b.reportLocked(to != nodeDown, err)
}

// reportLocked reports the beginning or the end of an outage. The lock is held, but not during the callback.
func (b *breaker) reportLocked(up bool, err error) {
	if !up {
		b.address = b.node.address()
	}
	b.nodes.reports.add(transition{b.address, up, err})
	b.mu.Unlock()
	defer b.mu.Lock()
	b.nodes.reports.run()
}

// allows reports whether a request may ask Redis. While that is down, only the prober asks. If it has ended, or
// is stuck in a call, one request asks as well.
func (b *breaker) allows(ctx context.Context, l limit.Joinable) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isDown() {
		return true
	}
	b.setTargetLocked(ctx, l)
	if b.startProberLocked() { // after a minute without requests: the prober keeps the others back
		return true
	}
	stuck := b.lastRequest >= b.prober.due+10*int64(b.nodes.Deadline())
	if stuck {
		b.prober.due = b.lastRequest
	}
	return stuck
}

// setTargetLocked makes the limiter of a request the target of the next probe. The lock is held.
func (b *breaker) setTargetLocked(ctx context.Context, l limit.Joinable) {
	b.lastRequest, b.target = b.now(), target{context.WithoutCancel(ctx), l}
}

// recordAnswer records an answer of Redis to a request. One that did not grant ends no outage, since it
// does not show that Redis can grant: a probe finds that out.
func (b *breaker) recordAnswer(ctx context.Context, l limit.Joinable) {
	b.lastAnswer.Store(b.now())
	if b.isDown() {
		b.verify(ctx, l)
	}
}

// endOutage ends an outage, since Redis has granted a call of a limiter.
func (b *breaker) endOutage(l limit.Joinable) {
	moved := b.movedError(l)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setStateLocked(nodeUp, moved)
}

// movedError returns a movedError if an answer to a call of a limiter was that of another node, to which its calls
// go now.
func (b *breaker) movedError(l limit.Joinable) error {
	if now := nodeNow(l, b.nodes.Deadline()); now != b.node {
		return &movedError{b.node, now}
	}
	return nil
}

// recordError records the error of a call.
func (b *breaker) recordError(ctx context.Context, l limit.Joinable, err error) {
	switch statusOf(err) {
	case callAnswered, callErrorReply:
		b.recordAnswer(ctx, l)
	case callFailed:
		if !b.isDown() && !b.isSilent() {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.setTargetLocked(ctx, l)
		b.setStateLocked(nodeDown, err)
	}
}

// verify starts a probe unless Redis has answered lately: a caller may leave before an answer arrives.
func (b *breaker) verify(ctx context.Context, l limit.Joinable) {
	if !b.isDown() && !b.isSilent() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setTargetLocked(ctx, l)
	b.setStateLocked(max(nodeUnsure, b.state.Load()), nil)
}

// probeIdle is the time after the latest request during an outage for which a prober continues.
const probeIdle = time.Minute

// maxProbePause is the longest time between probes, unless the deadline is longer. Probes of a
// server that hangs pile up until rueidis closes its connection.
const maxProbePause = time.Second

// prober asks a node until it answers. It ends when the node is up, or no request has come for a minute.
type prober struct {
	due   int64         // of the next probe, or of the one that has not ended; 0 if no prober runs
	pause time.Duration // from the next probe to the one after it
	timer *time.Timer   // of the next probe; nil before the first one
}

// startProberLocked starts the prober, and reports whether it did: one may run. The lock is held.
func (b *breaker) startProberLocked() bool {
	if b.prober.due != 0 {
		return false
	}
	b.prober = prober{due: b.now(), pause: b.nodes.Deadline()}
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
	on, pause := b.nextProbe()
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
		b.setStateLocked(nodeUp, &movedError{b.node, now})
	}
}

// nextProbe returns the target of the next probe and the time until the one after it. That time doubles
// with each probe, up to a second. If nextProbe returns 0, the prober ends.
func (b *breaker) nextProbe() (target, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, pause := b.now(), b.prober.pause
	if b.state.Load() == nodeUp || b.target.limiter == nil || now-b.lastRequest >= int64(probeIdle) {
		b.prober = prober{}
		return target{}, 0
	}
	b.prober.due, b.prober.pause = now+int64(pause), max(b.nodes.Deadline(), min(2*pause, maxProbePause))
	return b.target, pause
}

// observe records the result of a probe. A panic of the callback is dropped, since no request made
// the call.
func (b *breaker) observe(on target, err error) {
	defer func() { _ = recover() }()
	status, explained := statusOf(err), b.explain(on.limiter, err) // by methods of the user's, so without the lock
	var moved error
	if b.isDown() && (status == callAnswered || status == callErrorReply) {
		moved = b.movedError(on.limiter)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, rueidis.ErrClosing) {
		b.target = target{} // the client is closed: no other probe
	}
	switch {
	case status == callAnswered || status == callErrorReply:
		b.lastAnswer.Store(b.now())
		b.setStateLocked(nodeUp, moved)
	case b.isDown():
	case status == callFailed && b.state.Load() == nodeUnsure && b.isSilent():
		b.setStateLocked(nodeDown, explained)
	default:
		b.setStateLocked(nodeUp, nil)
	}
}

// probe probes Redis for a target.
func (b *breaker) probe(on target) error {
	ctx, cancel := context.WithTimeout(on.ctx, b.nodes.Deadline())
	defer cancel()
	return probe(ctx, on.limiter)
}

// probe asks whether Redis can grant. It sets a key of its own for a millisecond, unless there is one: a call that only
// reads would succeed where writes fail.
func probe(ctx context.Context, l limit.Joinable) error {
	h, ok := inside.HandleOf(l)
	if !ok {
		return errZero(l)
	}
	g, key, ok := h.Node()
	if !ok {
		return CheckLimiter(l)
	}
	_, err := engine.Detach(ctx, func(ctx context.Context) (m rueidis.RedisMessage, err error) {
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

// explain returns the error of a call that Redis has not decided: with the limiter, the node and the
// deadline.
func (b *breaker) explain(l limit.Joinable, err error) error {
	if err == nil || IsMistake(err) || errors.Is(err, ErrDown) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", b.nodes.Deadline(), err)
	}
	return &callError{l.Name(), b.node, err}
}

// notSent is the error of a request that is decided without a call to its node, since that is down.
func (b *breaker) notSent(l limit.Joinable) error { return &callError{l.Name(), b.node, ErrDown} }

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
	reason := e.err.Error()
	for _, of := range []string{"limit", "rratelimiter"} { // the limiter is named once
		reason = strings.ReplaceAll(reason, fmt.Sprintf("%s: limiter %q: ", of, e.limiter), "")
	}
	return fmt.Sprintf("rratelimiter: limiter %q: %s: %s", e.limiter, e.node, reason)
}

func (e *callError) Unwrap() error { return e.err }

// movedError is why an outage has ended although its node has not answered.
type movedError struct{ from, to node }

func (e *movedError) Error() string {
	return fmt.Sprintf("rratelimiter: %s has not answered: its calls go to %s now", e.from, e.to)
}
