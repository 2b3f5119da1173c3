package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// node is a node of Redis: a single server, or a master of a Redis Cluster. Limiters of types that are
// not this library's share the zero node.
type node struct {
	engine *engine.Engine
	name   string // its address on a cluster; "" for a single server, and until the slots are known
}

// nodeOf returns the node that a limiter's calls go to. With moved, a failover of a second ago counts.
func nodeOf(l Limiter, moved bool) node {
	g, key, ok := inside.NodeOf(unwrap(l))
	if !ok {
		return node{}
	}
	return node{g, g.Node(key, moved)}
}

// Wrapper is a limiter that calls another one.
type Wrapper interface{ Unwrap() Limiter }

func unwrap(l Limiter) Limiter {
	if w, ok := l.(Wrapper); ok {
		return w.Unwrap()
	}
	return l
}

// address returns the address of the node, "" if it is unknown.
func (n node) address() string {
	if n.engine == nil {
		return ""
	}
	return n.engine.Address(n.name)
}

// String returns the node for errors.
func (n node) String() string {
	if address := n.address(); address != "" {
		return "Redis at " + address
	}
	return "Redis"
}

// failure returns the error of a call that Redis has not decided: with the limiter, the node and the
// deadline.
func (b *breaker) failure(l Limiter, err error) error {
	if statusOf(err) != callFailed || errors.Is(err, ErrDown) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", b.deadline(), err)
	}
	return &callError{l.Name(), b.node, err}
}

// callError is the error of a call that Redis has not decided.
type callError struct {
	limiter string
	node    node
	err     error
}

func (e *callError) Error() string {
	return fmt.Sprintf("rratelimiter: limiter %q: %s: %v", e.limiter, e.node, e.err)
}

func (e *callError) Unwrap() error { return e.err }

// downError is the error of a request that is decided without a call to its node, since that is down.
type downError struct {
	limiter string
	node    node
}

func (e *downError) Error() string {
	return fmt.Sprintf("rratelimiter: limiter %q: %s is down: the call was not sent", e.limiter, e.node)
}

func (e *downError) Unwrap() error { return ErrDown }

func (b *breaker) downError(l Limiter) error { return &downError{l.Name(), b.node} }

// breakerOf returns the breaker of a limiter's node.
func (s *Shared) breakerOf(l Limiter) *breaker {
	on := nodeOf(l, false)
	if b, ok := s.breakers.Load(on); ok {
		return b.(*breaker) //nolint:errcheck,forcetypeassert // nothing else is there
	}
	b, _ := s.breakers.LoadOrStore(on, &breaker{clock: clock{time.Now()}, node: on, deadlines: &s.deadline,
		reports: s.reports})
	return b.(*breaker) //nolint:errcheck,forcetypeassert // nothing else is there
}
