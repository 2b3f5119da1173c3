package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// healthy returns the roles and slots of all nodes by the view of one node, or an error that names
// what a healthy cluster lacks.
func healthy(ctx context.Context, node *Server) (roles string, err error) {
	info, err := askText(ctx, node.Addr(), "CLUSTER", "INFO")
	if err != nil {
		return "", err
	}
	if !strings.Contains(info, "cluster_state:ok\r\n") {
		return "", errors.New("the state is not ok")
	}
	view, err := clusterView(ctx, node)
	if err != nil {
		return "", err
	}
	masters, replicated := 0, make(map[string]bool)
	all := make([]string, len(view))
	for i, line := range view {
		if line.has("fail") || line.has("fail?") || line.has("handshake") || line.has("noaddr") {
			return "", fmt.Errorf("%s is %v", line.id, line.flags)
		}
		if line.has("master") {
			masters++
		} else {
			replicated[line.master] = true
		}
		if line.has("myself") && line.has("slave") {
			if err := inSync(ctx, node); err != nil {
				return "", err
			}
		}
		all[i] = fmt.Sprint(line.id, line.master, line.slots)
	}
	if len(view) != clusterNodes || masters != clusterMasters || len(replicated) != clusterMasters {
		return "", fmt.Errorf("%d nodes, %d of them masters, %d of these with a replica", len(view), masters,
			len(replicated))
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), nil
}

// inSync returns an error unless the replica is connected to its master and has its data.
func inSync(ctx context.Context, replica *Server) error {
	info, err := askText(ctx, replica.Addr(), "INFO", "replication")
	if err == nil && !strings.Contains(info, "master_link_status:up\r\n") {
		err = errors.New("the replica is not in sync with its master")
	}
	return err
}

// clusterNode is a line of CLUSTER NODES.
type clusterNode struct {
	id     string
	flags  []string
	master string // the id of a replica's master
	epoch  int64
	slots  [][2]int // first and last of each range
}

func (n clusterNode) has(flag string) bool { return slices.Contains(n.flags, flag) }

func (n clusterNode) serves(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// clusterView returns the view of one node.
func clusterView(ctx context.Context, node *Server) ([]clusterNode, error) {
	text, err := askText(ctx, node.Addr(), "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var view []clusterNode
	for line := range strings.Lines(text) {
		n, err := parseClusterNode(line)
		if err != nil {
			return nil, err
		}
		view = append(view, n)
	}
	return view, nil
}

// parseClusterNode reads a line: id, address, flags, master, ping sent, pong received, epoch, link
// state, slots.
func parseClusterNode(line string) (clusterNode, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return clusterNode{}, fmt.Errorf("CLUSTER NODES: cannot read %q", line)
	}
	epoch, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil {
		return clusterNode{}, fmt.Errorf("CLUSTER NODES: cannot read %q: %w", line, err)
	}
	n := clusterNode{id: fields[0], flags: strings.Split(fields[2], ","), master: fields[3], epoch: epoch}
	for _, field := range fields[8:] {
		// [slot->-id] and [slot-<-id] are slots on their way to another node, which the ranges show
		// too while this node serves them.
		if strings.HasPrefix(field, "[") {
			continue
		}
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		from, fromErr := strconv.Atoi(first)
		to, toErr := strconv.Atoi(last)
		if err := errors.Join(fromErr, toErr); err != nil {
			return clusterNode{}, fmt.Errorf("CLUSTER NODES: cannot read %q: %w", line, err)
		}
		n.slots = append(n.slots, [2]int{from, to})
	}
	return n, nil
}
