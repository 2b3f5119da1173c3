package outage

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// The nodes of Redis, and the time of this process.

// node is a node of Redis: a single server, or a master of a Redis Cluster. Invalid limiters share the zero node.
type node struct {
	engine *engine.Engine
	name   string // its address on a cluster; "" for a single server, and until the slots are known
}

// nodeOf returns the node that a limiter's calls go to. With moved, a failover of a second ago counts.
func nodeOf(l Limiter, moved bool) node {
	if h, err := handleOf(l); err == nil {
		if g, key, ok := h.Node(); ok {
			return node{g, g.Nodes.Node(key, moved)}
		}
	}
	return node{}
}

// nodeNow is nodeOf with the slots of this moment, unless their answer takes longer.
func nodeNow(l Limiter, within time.Duration) node {
	if h, err := handleOf(l); err == nil {
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

// clock counts nanoseconds since its start, from 1. It is monotonic.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) + 1 }
