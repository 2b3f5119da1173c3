package servers

import (
	"context"
	"errors"
	"fmt"
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
type Cluster struct{ nodes []*Server }

// NewCluster starts a cluster for the test. It returns when every node sees all masters and
// replicas. args are further arguments of each redis-server. The test fails if the cluster does not
// start; the cluster ends with the test.
//
// A replica replaces a killed master after about two seconds.
func NewCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := OpenCluster(ctx, args...)
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(func() { closeAndReport(t, c.nodes...) })
	return c
}

// OpenCluster is NewCluster without a test: the caller must Close the cluster. ctx bounds the
// start.
func OpenCluster(ctx context.Context, args ...string) (*Cluster, error) {
	own := dataArgs(append([]string{
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", "1500",
		// A replica takes over regardless of the age of its data.
		"--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0",
		"--repl-ping-replica-period", "1",
	}, args...))
	nodes, err := startAll(ctx, clusterNodes, func(int) []string { return own })
	if err != nil {
		return nil, err
	}
	c := &Cluster{nodes}
	if err := c.form(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close kills all nodes.
func (c *Cluster) Close() error { return closeAll(c.nodes) }

// Nodes returns all nodes, in any role, also stopped ones.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.nodes) }

// SlotOf returns the hash slot of a key.
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

// MasterOf returns the node that serves the slot, by the views of the nodes that reply. During a
// failover there may be none: an error.
func (c *Cluster) MasterOf(ctx context.Context, slot int) (*Server, error) {
	master, _, err := c.find(ctx, slot)
	return master, err
}

// ReplicaOf returns a replica of the node that serves the slot.
func (c *Cluster) ReplicaOf(ctx context.Context, slot int) (*Server, error) {
	_, replica, err := c.find(ctx, slot)
	if err == nil && replica == nil {
		err = fmt.Errorf("the master of slot %d has no replica that answers", slot)
	}
	return replica, err
}

// agree returns an error unless every node replies and all see the same complete cluster, each replica
// in sync with its master.
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
		// A restarted node keeps its old role until the others have sent the new one.
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
			// A restarted old master may still claim its slots: the higher epoch is right.
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

// form creates a cluster of unconnected nodes: the first half become masters, each with one of the
// others as its replica.
func (c *Cluster) form(ctx context.Context) error {
	ids := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		id, err := askText(ctx, node.Addr(), "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[i] = id
		// Different epochs from the start save a round of gossip.
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
		// A node accepts its master only after gossip has brought that master's name.
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
	return awaitHealthy(ctx, c.agree)
}

// slotsOf returns the slots of the i-th master, a third of all.
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
