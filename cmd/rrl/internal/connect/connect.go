package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Redis is a connection to a server, a Sentinel set-up or a cluster.
type Redis struct {
	rueidis.Client
	Where   string // its address, or the first one's
	Replica bool   // it is a single server that follows another one
	Cluster bool
}

// Open connects and detects a replica or a cluster.
func Open(ctx context.Context, o Options) (*Redis, error) {
	option, err := o.client()
	if err != nil {
		return nil, err
	}
	where := strings.Join(option.InitAddress, ", ")
	if set := option.Sentinel.MasterSet; set != "" {
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, explainSentinel(err, fmt.Sprintf("the Sentinel at %s (master_set=%s)", where, set), option.Username)
		}
		return &Redis{Client: client, Where: where}, nil
	}
	var errs []error
	for _, address := range option.InitAddress {
		single := option
		single.InitAddress, single.ForceSingleClient = []string{address}, true
		client, err := rueidis.NewClient(single)
		if err != nil {
			errs = append(errs, explain(err, address, option.Username))
			continue
		}
		about, err := client.Do(ctx, client.B().Arbitrary("HELLO", "3").Build()).AsMap()
		if err != nil {
			client.Close()
			errs = append(errs, explain(err, address, option.Username))
			continue
		}
		mode, role := word(about, "mode"), word(about, "role")
		switch mode {
		case "cluster":
			client.Close()
			option.InitAddress = append([]string{address}, option.InitAddress...)
			return openCluster(option, address)
		case "sentinel":
			client.Close()
			return nil, fmt.Errorf("%s is a Sentinel and has no limiters: name its master, as in redis://%s?master_set=mymaster", address, address)
		}
		return &Redis{Client: client, Where: address, Replica: role != "master"}, nil
	}
	return nil, errors.Join(errs...)
}

func openCluster(option rueidis.ClientOption, where string) (*Redis, error) {
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, explain(err, "the cluster of "+where, option.Username)
	}
	if client.Mode() != rueidis.ClientModeCluster {
		client.Close()
		return nil, fmt.Errorf("%s is a cluster and denies user %q its slots: "+
			"grant the rights +cluster|slots and +cluster|shards", where, user(option.Username))
	}
	return &Redis{Client: client, Where: where, Cluster: true}, nil
}

func word(about map[string]rueidis.RedisMessage, field string) string {
	message := about[field]
	text, _ := message.ToString()
	return text
}

// Node is a server that can be scanned.
type Node struct {
	rueidis.Client
	Where string
}

// slots is the number of hash slots of a cluster.
const slots = 16384

// Masters gives every server that holds keys of its own: one, or all masters of a cluster. Where slots of a cluster have no master
// that is an error that says which.
func (r *Redis) Masters(ctx context.Context) ([]Node, error) {
	if !r.Cluster {
		return []Node{{r.Client, r.Where}}, nil
	}
	ranges, err := r.Do(ctx, r.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, r.Explain(err)
	}
	known, covered, seen := r.Nodes(), 0, make(map[string]bool)
	var masters []Node
	for _, message := range ranges {
		parts, err := message.ToArray()
		if err != nil || len(parts) < 3 {
			return nil, fmt.Errorf("%s returns an unexpected reply to CLUSTER SLOTS", r.Where)
		}
		first, _ := parts[0].AsInt64()
		last, _ := parts[1].AsInt64()
		covered += int(last - first + 1)
		address := addressOf(parts[2], r.Where)
		if seen[address] {
			continue
		}
		seen[address] = true
		client, ok := known[address]
		if !ok {
			return nil, fmt.Errorf("the cluster changed meanwhile: the master %s is new: run this again", address)
		}
		masters = append(masters, Node{client, address})
	}
	if covered != slots {
		return nil, fmt.Errorf("the cluster of %s has no master for %d of its %d slots: "+
			"see CLUSTER NODES, restart the nodes or let a replica take over", r.Where, slots-covered, slots)
	}
	return masters, nil
}

// addressOf reads a node of CLUSTER SLOTS. A node that does not know its own address stands where it was asked.
func addressOf(node rueidis.RedisMessage, asked string) string {
	parts, err := node.ToArray()
	if err != nil || len(parts) < 2 {
		return asked
	}
	host, _ := parts[0].ToString()
	port, _ := parts[1].AsInt64()
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}

// Home gives the server that holds the keys of a slot, by a key of it.
func (r *Redis) Home(ctx context.Context, key string) ([]Node, error) {
	if !r.Cluster {
		return r.Masters(ctx)
	}
	masters, err := r.Masters(ctx)
	if err != nil {
		return nil, err
	}
	for _, master := range masters {
		// It answers with a redirection where the key is not its own.
		err := master.Do(ctx, master.B().Arbitrary("EXISTS").Keys(key).Build()).Error()
		if moved, ok := rueidis.IsRedisErr(err); ok {
			if _, isMoved := moved.IsMoved(); isMoved {
				continue
			}
		}
		if err != nil {
			return nil, explain(err, master.Where, "")
		}
		return []Node{master}, nil
	}
	return nil, fmt.Errorf("no master of the cluster of %s serves the slot of %q: see CLUSTER NODES", r.Where, key)
}
