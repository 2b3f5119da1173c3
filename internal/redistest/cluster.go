package redistest

import (
	"fmt"
	"slices"
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
	delays    map[string]time.Duration
	masters   []string // of equal ranges of slots
	asked     int      // for the slots
	lastAsked time.Time
	nodes     map[string]*miniredis.Miniredis
}

// RunCluster runs a test with a Cluster and a fake clock. The test fails if a goroutine is left.
func RunCluster(t *testing.T, test func(c *Cluster)) { runCluster(t, []string{NodeA}, test) }

// RunTwoMasters is RunCluster with a node B that has the second half of the slots.
func RunTwoMasters(t *testing.T, test func(c *Cluster)) { runCluster(t, []string{NodeA, NodeB}, test) }

func runCluster(t *testing.T, masters []string, test func(c *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{T: t, redirects: make(map[string]string), rejected: make(map[string]int),
			delays: make(map[string]time.Duration), masters: masters}
		c.nodes = make(map[string]*miniredis.Miniredis)
		for _, address := range []string{NodeA, NodeB} {
			node := miniredis.NewMiniRedis()
			node.ClockTTL(true)
			pipe, err := node.Dial() // the server exists from the first connection on
			require.NoError(t, err)
			require.NoError(t, pipe.Close())
			node.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
				return c.answer(address, peer, command, args)
			})
			c.nodes[address] = node
			t.Cleanup(node.Close)
		}
		var err error
		c.Conn, err = memredis.ConnectCluster(NodeA, c.node)
		require.NoError(t, err)
		t.Cleanup(func() {
			time.Sleep(time.Minute) // calls end: see Run
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

// Delay has a node take so long for each command with keys.
func (c *Cluster) Delay(node string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delays[node] = d
}

// Serve sets the masters, which have equal ranges of slots. With none, no slot is served yet. The range
// of the master "" is not served, and one like ":1" does not name its host.
func (c *Cluster) Serve(masters ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.masters = masters
}

// Disconnect closes the connections to a node, and the node. The client then asks for the nodes.
func (c *Cluster) Disconnect(node string) {
	server := c.node(node)
	c.mu.Lock()
	delete(c.nodes, node) // a miniredis that is closed begins again with a connection
	c.mu.Unlock()
	server.Close()
}

func (c *Cluster) node(address string) *miniredis.Miniredis {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[address]
}

// Asked returns how often the slots were asked for by CLUSTER SLOTS. Several nodes are asked at once.
func (c *Cluster) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *Cluster) answer(node string, peer *server.Peer, command string, args []string) bool {
	switch strings.ToUpper(command) {
	case "CLUSTER":
		c.mu.Lock()
		served, slots := slotRanges(c.masters), strings.EqualFold(args[0], "SLOTS")
		if slots && time.Since(c.lastAsked) > 10*time.Millisecond {
			c.asked, c.lastAsked = c.asked+1, time.Now()
		}
		c.mu.Unlock()
		if slots {
			writeSlots(peer, served)
		} else {
			writeShards(peer, served)
		}
		return true
	case "ASKING":
		peer.WriteOK()
		return true
	case "SET":
		if !strings.HasSuffix(args[0], ":probe") { // of a script, whose call the node answers
			return false
		}
	case "EVALSHA", "EVAL", "HMGET", "EXISTS", "TOUCH", "UNLINK", "PEXPIRE", "MEMORY", "TYPE", "PTTL":
	default:
		return false
	}
	c.mu.Lock()
	redirect := c.redirects[node]
	if redirect != "" {
		c.rejected[node]++
	}
	delay := c.delays[node]
	c.mu.Unlock()
	time.Sleep(delay)
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

// slotRange is the range of slots of a master.
type slotRange struct {
	first, last int
	host        string
}

func slotRanges(masters []string) (served []slotRange) {
	const slots = 16384
	for i, address := range masters {
		if host, _, named := strings.Cut(address, ":"); named {
			served = append(served, slotRange{i * slots / len(masters), (i+1)*slots/len(masters) - 1, host})
		}
	}
	return served
}

// writeShards writes the reply to CLUSTER SHARDS.
func writeShards(peer *server.Peer, served []slotRange) {
	peer.WriteLen(len(served))
	for _, r := range served {
		peer.WriteMapLen(2)
		peer.WriteBulk("slots")
		peer.WriteLen(2)
		peer.WriteInt(r.first)
		peer.WriteInt(r.last)
		peer.WriteBulk("nodes")
		peer.WriteLen(1)
		peer.WriteMapLen(4)
		peer.WriteBulk("port")
		peer.WriteInt(1)
		for field, value := range map[string]string{"endpoint": r.host, "role": "master", "health": "online"} {
			peer.WriteBulk(field)
			peer.WriteBulk(value)
		}
	}
}

// writeSlots writes the reply to CLUSTER SLOTS, the last range first.
func writeSlots(peer *server.Peer, served []slotRange) {
	peer.WriteLen(len(served))
	for _, r := range slices.Backward(served) {
		peer.WriteLen(3)
		peer.WriteInt(r.first)
		peer.WriteInt(r.last)
		peer.WriteLen(3)
		if r.host != "" {
			peer.WriteBulk(r.host)
		} else {
			peer.WriteNull()
		}
		peer.WriteInt(1)
		peer.WriteBulk("id of " + r.host)
	}
}
