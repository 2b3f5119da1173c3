package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Slots is the number of hash slots of a cluster.
const Slots = 16384

const (
	clusterMasters = 3
	clusterNodes   = 2 * clusterMasters
)

// Cluster is a Redis Cluster of three masters and three replicas. Its methods are safe for
// concurrent use.
type Cluster struct {
	nodes   []*Server
	ownsDir string
}

// NewCluster starts a cluster for the test and returns once every node sees it whole, each master
// with its replica. args are further arguments of each redis-server. The test fails where the
// cluster cannot be started; the cluster ends with the test.
//
// A master that is gone is replaced by its replica after about two seconds.
func NewCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := startCluster(ctx, t.TempDir(), args)
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(func() { closeAndReport(t, c.nodes...) })
	return c
}

// OpenCluster is NewCluster without a test: the caller must Close the cluster. ctx bounds the start
// alone.
func OpenCluster(ctx context.Context, args ...string) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "redis-cluster-")
	if err != nil {
		return nil, err
	}
	c, err := startCluster(ctx, dir, args)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c.ownsDir = dir
	return c, nil
}

// Close kills all nodes.
func (c *Cluster) Close() error {
	err := closeAll(c.nodes)
	if c.ownsDir != "" {
		err = errors.Join(err, os.RemoveAll(c.ownsDir))
	}
	return err
}

// Nodes are all nodes, whatever their roles and whether they run.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.nodes) }

// SlotOf is the hash slot of a key.
func (c *Cluster) SlotOf(ctx context.Context, key string) (int, error) {
	var errs []error
	for _, node := range c.nodes {
		message, err := node.Do(ctx, "CLUSTER", "KEYSLOT", key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		slot, err := message.AsInt64()
		return int(slot), err
	}
	return 0, errors.Join(errs...)
}

// MasterOf is the node that serves the slot now, as the nodes that answer see themselves. During a
// failover, between the old master's end and its replica's rise, there is none: an error.
func (c *Cluster) MasterOf(ctx context.Context, slot int) (*Server, error) {
	master, _, err := c.find(ctx, slot)
	return master, err
}

// ReplicaOf is a replica of the node that serves the slot now.
func (c *Cluster) ReplicaOf(ctx context.Context, slot int) (*Server, error) {
	_, replica, err := c.find(ctx, slot)
	if err == nil && replica == nil {
		err = fmt.Errorf("the master of slot %d has no replica that answers", slot)
	}
	return replica, err
}

// AwaitHealthy waits until every node answers and all of them see the same complete cluster, each
// replica in step with its master. After a failover this needs the old master to run again.
func (c *Cluster) AwaitHealthy(ctx context.Context) error {
	for {
		err := c.agree(ctx)
		if err == nil {
			return nil
		}
		if !pause(ctx) {
			return err
		}
	}
}

// agree says what keeps the nodes from seeing one and the same healthy cluster.
func (c *Cluster) agree(ctx context.Context) error {
	var first string
	for _, node := range c.nodes {
		view, err := healthy(ctx, node)
		if err != nil {
			return fmt.Errorf("the node on %s does not see a healthy cluster: %w", node.Addr(), err)
		}
		if first == "" {
			first = view
		}
		// A node that comes back is sure of its old role until the others have sent it its new
		// one.
		if view != first {
			return fmt.Errorf("the nodes on %s and %s see different clusters", c.nodes[0].Addr(), node.Addr())
		}
	}
	return nil
}

func (c *Cluster) find(ctx context.Context, slot int) (master, replica *Server, err error) {
	if slot < 0 || slot >= Slots {
		return nil, nil, fmt.Errorf("there is no slot %d", slot)
	}
	seen := make(map[*Server]clusterNode)
	var owner clusterNode
	var errs []error
	for _, node := range c.nodes {
		lines, err := clusterView(ctx, node)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, line := range lines {
			if !line.has("myself") {
				continue
			}
			seen[node] = line
			// An old master that has just come back may still claim its slots: the higher epoch is
			// right.
			if line.has("master") && line.serves(slot) && (master == nil || line.epoch > owner.epoch) {
				master, owner = node, line
			}
		}
	}
	if master == nil {
		return nil, nil, errors.Join(append(errs, fmt.Errorf("no node serves slot %d", slot))...)
	}
	for _, node := range c.nodes {
		if line, ok := seen[node]; ok && line.master == owner.id {
			return master, node, nil
		}
	}
	return master, nil, nil
}

func startCluster(ctx context.Context, dir string, args []string) (*Cluster, error) {
	nodes, err := startAll(ctx, dir, clusterNodes, func(string) ([]string, error) {
		own := dataArgs([]string{
			"--cluster-enabled", "yes",
			"--cluster-node-timeout", "1500",
			// A replica takes over however long it was cut off: tests look at what a limiter does
			// then, not at how old data may be.
			"--cluster-replica-validity-factor", "0",
			"--repl-diskless-sync-delay", "0",
			"--repl-ping-replica-period", "1",
		})
		return append(own, args...), nil
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{nodes: nodes}
	if err := c.form(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// form makes a cluster of nodes that know nothing of each other: the first half become masters,
// each with one of the others as replica.
func (c *Cluster) form(ctx context.Context) error {
	ids := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		id, err := askText(ctx, node.Addr(), "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[i] = id
		// Epochs that differ from the start save the nodes a round of gossip.
		if _, err := node.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	for i, node := range c.nodes[:clusterMasters] {
		if _, err := node.Do(ctx, append([]string{"CLUSTER", "ADDSLOTS"}, slotsOf(i)...)...); err != nil {
			return err
		}
	}
	for _, node := range c.nodes[1:] {
		if _, err := node.Do(ctx, "CLUSTER", "MEET", host, strconv.Itoa(c.nodes[0].Port())); err != nil {
			return err
		}
	}
	for i, replica := range c.nodes[clusterMasters:] {
		// A node accepts its master only once gossip has brought it that master's name.
		for {
			_, err := replica.Do(ctx, "CLUSTER", "REPLICATE", ids[i])
			if err == nil {
				break
			}
			if !pause(ctx) {
				return err
			}
		}
	}
	return c.AwaitHealthy(ctx)
}

// slotsOf are the slots of the i-th master, a third of all.
func slotsOf(i int) []string {
	var slots []string
	for slot := i * Slots / clusterMasters; slot < (i+1)*Slots/clusterMasters; slot++ {
		slots = append(slots, strconv.Itoa(slot))
	}
	return slots
}

func addrs(servers []*Server) []string {
	all := make([]string, len(servers))
	for i, server := range servers {
		all[i] = server.Addr()
	}
	return all
}
