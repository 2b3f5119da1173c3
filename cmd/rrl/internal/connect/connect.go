package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Redis is a connection to a server, a Sentinel set-up or a cluster.
type Redis struct {
	rueidis.Client
	Where   string // its address, or the first one's
	Replica bool   // it is a single server that follows another one
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

func (r *Redis) cluster() bool { return r.Mode() == rueidis.ClientModeCluster }

// Late returns a connection that Open makes as soon as it can, for an error that IsAway.
func (o Options) Late(away error) *Redis {
	option, _ := o.client() // Open has checked it
	client := redisx.Late(away, func() (rueidis.Client, error) {
		r, err := Open(context.Background(), o)
		if err != nil {
			return nil, err
		}
		return r.Client, nil
	})
	return &Redis{Client: client, Where: strings.Join(option.InitAddress, ", ")}
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
	return &Redis{Client: client, Where: where}, nil
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

const slots = 16384

// slotRange has slots of a cluster and their master.
type slotRange struct {
	first, last int64
	master      Node
}

// Masters returns each server that has keys of its own: one, or all masters of a cluster. If slots of a
// cluster have no master, it returns an error with their number.
func (r *Redis) Masters(ctx context.Context) ([]Node, error) {
	if !r.cluster() {
		return []Node{{r.Client, r.Where}}, nil
	}
	ranges, err := r.slotRanges(ctx)
	if err != nil {
		return nil, err
	}
	var masters []Node
	for _, s := range ranges {
		if !slices.Contains(masters, s.master) {
			masters = append(masters, s.master)
		}
	}
	return masters, nil
}

// Home returns the server that has the key, as the only element.
func (r *Redis) Home(ctx context.Context, key string) ([]Node, error) {
	if !r.cluster() {
		return r.Masters(ctx)
	}
	ranges, err := r.slotRanges(ctx)
	if err != nil {
		return nil, err
	}
	slot := int64(redisx.Slot(key))
	for _, s := range ranges {
		if s.first <= slot && slot <= s.last {
			return []Node{s.master}, nil
		}
	}
	return nil, fmt.Errorf("no master of the cluster of %s has the slot of %q: see CLUSTER NODES", r.Where, key)
}

func (r *Redis) slotRanges(ctx context.Context) ([]slotRange, error) {
	reply, err := r.Do(ctx, r.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, r.Explain(err)
	}
	known, covered := r.Nodes(), int64(0)
	var all []slotRange
	for _, message := range reply {
		parts, err := message.ToArray()
		if err != nil || len(parts) < 3 {
			return nil, fmt.Errorf("%s returns an unexpected reply to CLUSTER SLOTS", r.Where)
		}
		first, _ := parts[0].AsInt64()
		last, _ := parts[1].AsInt64()
		covered += last - first + 1
		address := addressOf(parts[2], r.Where)
		client, ok := known[address]
		if !ok {
			return nil, fmt.Errorf("the cluster changed meanwhile: the master %s is new: run this again", address)
		}
		all = append(all, slotRange{first, last, Node{client, address}})
	}
	if covered != slots {
		return nil, fmt.Errorf("the cluster of %s has no master for %d of its %d slots: "+
			"see CLUSTER NODES, restart the nodes or let a replica take over", r.Where, slots-covered, slots)
	}
	return all, nil
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
