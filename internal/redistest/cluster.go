package redistest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// The addresses of the nodes of a Cluster.
const (
	NodeA = "a:1"
	NodeB = "b:1"
)

// Cluster is a Redis Cluster of two nodes. Each has data of its own, and the client believes that
// node A has all slots. A node takes 0.1 ms to reject a command.
type Cluster struct {
	*testing.T
	Conn rueidis.Client

	mu        sync.Mutex
	redirects map[string]string // the error with which a node rejects commands with keys, by node
	rejected  map[string]int    // how often it did
}

// RunCluster runs a test with a Cluster and a fake clock. The test fails if a goroutine is left.
func RunCluster(t *testing.T, test func(c *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{T: t, redirects: make(map[string]string), rejected: make(map[string]int)}
		nodes := make(map[string]*miniredis.Miniredis)
		for _, address := range []string{NodeA, NodeB} {
			node := miniredis.NewMiniRedis()
			node.ClockTTL(true)
			pipe, err := node.Dial() // the server exists from the first connection on
			require.NoError(t, err)
			require.NoError(t, pipe.Close())
			node.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
				return c.answer(address, peer, command)
			})
			nodes[address] = node
			t.Cleanup(node.Close)
		}
		var err error
		c.Conn, err = memredis.ConnectCluster(NodeA, nodes)
		require.NoError(t, err)
		t.Cleanup(func() {
			c.Conn.Close()
			time.Sleep(time.Minute) // what was on its way arrives
		})
		test(c)
	})
}

// Redirect has a node reject all commands with keys with an error: "MOVED 0 b:1", "ASK 0 b:1". With
// no error it runs them.
func (c *Cluster) Redirect(node, err string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redirects[node] = err
}

// Rejected returns how many commands the nodes have rejected since the last call.
func (c *Cluster) Rejected() (byNode map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byNode, c.rejected = c.rejected, make(map[string]int)
	return byNode
}

func (c *Cluster) answer(node string, peer *server.Peer, command string) bool {
	switch strings.ToUpper(command) {
	case "CLUSTER":
		writeShards(peer)
		return true
	case "ASKING":
		peer.WriteOK()
		return true
	case "EVALSHA", "EVAL", "HMGET", "EXISTS", "TOUCH", "UNLINK", "PEXPIRE", "MEMORY", "TYPE", "PTTL":
	default:
		return false
	}
	c.mu.Lock()
	redirect := c.redirects[node]
	if redirect != "" {
		c.rejected[node]++
	}
	c.mu.Unlock()
	if redirect == "" {
		return false
	}
	time.Sleep(100 * time.Microsecond)
	peer.WriteError(redirect)
	return true
}

// Disagree has each node reject commands with a kind of redirection to the other one.
func (c *Cluster) Disagree(kindA, kindB string) {
	c.Redirect(NodeA, fmt.Sprintf("%s 0 %s", kindA, NodeB))
	c.Redirect(NodeB, fmt.Sprintf("%s 0 %s", kindB, NodeA))
}

// writeShards writes the reply to CLUSTER SHARDS: one shard with all slots, on node A.
func writeShards(peer *server.Peer) {
	host, _, _ := strings.Cut(NodeA, ":")
	peer.WriteLen(1)
	peer.WriteMapLen(2)
	peer.WriteBulk("slots")
	peer.WriteLen(2)
	peer.WriteInt(0)
	peer.WriteInt(16383)
	peer.WriteBulk("nodes")
	peer.WriteLen(1)
	peer.WriteMapLen(4)
	peer.WriteBulk("port")
	peer.WriteInt(1)
	for field, value := range map[string]string{"endpoint": host, "role": "master", "health": "online"} {
		peer.WriteBulk(field)
		peer.WriteBulk(value)
	}
}
