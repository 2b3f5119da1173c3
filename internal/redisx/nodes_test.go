package redisx

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// address returns the address of the node of a key, "" while it is not known.
func address(n *Nodes) string { return n.Address(n.Node("k", false)) }

// nodesOf returns the nodes of a cluster, with its slots.
func nodesOf(c *redistest.Cluster) *Nodes {
	n := NewNodes(c.Conn)
	address(n) // has it ask for the slots
	time.Sleep(time.Second)
	return n
}

// TestNodes_SlotsAreServedLater_AreFound: a cluster that starts serves none.
func TestNodes_SlotsAreServedLater_AreFound(t *testing.T) {
	redistest.RunCluster(t, func(c *redistest.Cluster) {
		c.Serve()
		n := nodesOf(c)
		assert.Empty(c, address(n))
		time.Sleep(time.Second) // the first answer, none, has arrived
		c.Serve(redistest.NodeA)
		address(n) // has it ask again, whether the answer comes at once or not
		time.Sleep(time.Millisecond)
		assert.NotEmpty(c, address(n))
		// With cluster-preferred-endpoint-type unknown-endpoint, the client connects to the host that it has asked.
		c.Serve(":1")
		assert.NotEmpty(c, address(nodesOf(c)))
	})
}

// TestNodes_ClockIsSetBack_SlotsAreAskedFor: not only when it has caught up.
func TestNodes_ClockIsSetBack_SlotsAreAskedFor(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		n := nodesOf(c)
		asked := c.Asked()
		n.asked.Store(time.Now().Add(time.Hour).UnixNano())
		n.Node("k", false)
		time.Sleep(time.Second)
		assert.Equal(c, asked+1, c.Asked())
	})
}

// TestNodes_Node_ServesTheKey: after a redirection the slots may be a second old, else a minute.
func TestNodes_Node_ServesTheKey(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		n := nodesOf(c)
		for i := range 100 {
			key := fmt.Sprint("key:", i)
			node := []string{redistest.NodeA, redistest.NodeB}[Slot(key)/8192]
			assert.Equal(c, node, n.Node(key, false))
			assert.Equal(c, node, n.Address(node))
		}
		for moved, want := range map[bool]int{false: 0, true: 1} {
			time.Sleep(time.Second)
			before := c.Asked()
			n.Node("k", moved)
			time.Sleep(time.Millisecond)
			assert.Equal(c, want, c.Asked()-before)
		}
		assert.Empty(c, n.Address(""))
	})
}

// TestNodes_OtherNodeAnswersFirst_ConnectionIsMade: a call that waits for it is answered.
func TestNodes_OtherNodeAnswersFirst_ConnectionIsMade(t *testing.T) {
	for range 300 { // the order of the goroutines differs
		redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
			NewNodes(c.Conn).Node("k", false)
			assert.NoError(c, c.Conn.Do(c.Context(), c.Conn.B().Unlink().Key("{a}").Build()).Error(), "of node B")
		})
	}
}
