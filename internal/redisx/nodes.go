package redisx

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Pipelines has the Pipeline of a Redis, or one for each node of a Redis Cluster. rueidis returns the
// results of a pipeline when all of its nodes have replied. No call should wait for another node.
//
// What it knows of the slots decides only which calls share a pipeline: rueidis routes them. It may be
// a minute old. If CLUSTER SLOTS is forbidden, calls are sent alone, and the cluster counts as one node.
type Pipelines struct {
	redis   rueidis.Client
	collect func(enough int, calls func() int)
	only    *Pipeline // of a single Redis

	slots atomic.Pointer[[]slotRange]
	asked atomic.Int64 // when, Unix nanoseconds
}

// slotRange is a range of slots and its node.
type slotRange struct {
	first, last int64
	node        string
	pipeline    *Pipeline
}

// The age of slots that are asked for again: usually, and if a node has redirected a call or they are
// not known.
const (
	slotsAge      = time.Minute
	movedSlotsAge = time.Second
)

// The bounds of a question for the slots, which may reach nodes that hang.
const (
	slotsTimeout = 5 * time.Second
	nodesAsked   = 4
)

// NewPipelines returns the Pipelines of a Redis. See Pipeline for collect.
func NewPipelines(redis rueidis.Client, collect func(enough int, calls func() int)) *Pipelines {
	return &Pipelines{redis: redis, collect: collect, only: &Pipeline{Redis: redis, Collect: collect}}
}

// Of returns the pipeline of a key, or nil if its node is not known yet.
func (p *Pipelines) Of(key string) *Pipeline {
	if p.single() {
		return p.only
	}
	return p.rangeOf(int64(Slot(key))).pipeline
}

// single reports whether there is only one node. Late may change it.
func (p *Pipelines) single() bool {
	return p.redis == nil || p.redis.Mode() != rueidis.ClientModeCluster
}

func (p *Pipelines) known() []slotRange {
	if slots := p.slots.Load(); slots != nil {
		return *slots
	}
	return nil
}

// rangeOf returns the range of a slot, or the zero range if its node is not known yet.
func (p *Pipelines) rangeOf(slot int64) slotRange {
	slots := p.known()
	i, _ := slices.BinarySearchFunc(slots, slot, func(r slotRange, slot int64) int { return int(r.last - slot) })
	if i == len(slots) || slot < slots[i].first {
		p.refresh(movedSlotsAge)
		return slotRange{}
	}
	return slots[i]
}

// Node returns the node of a key: its address on a cluster, or "" for the only one. While the address is
// not known, the slot counts as a node of its own. With moved, the answer may be a second old, else a
// minute.
func (p *Pipelines) Node(key string, moved bool) string {
	if p.single() {
		return ""
	}
	age := slotsAge
	if moved {
		age = movedSlotsAge
	}
	p.refresh(age)
	slot := int64(Slot(key))
	if r := p.rangeOf(slot); r != (slotRange{}) {
		return r.node
	}
	return slotNode + strconv.FormatInt(slot, 10)
}

// slotNode begins the node of a slot whose address is not known.
const slotNode = "slot "

// Address returns the address of a node for reports and errors, "" if it is unknown.
func (p *Pipelines) Address(node string) string {
	switch {
	case strings.HasPrefix(node, slotNode):
		return ""
	case node != "" || p.redis == nil || !p.single():
		return node
	}
	nodes := p.redis.Nodes()
	for address := range nodes {
		if len(nodes) == 1 {
			return address
		}
	}
	return "" // with replicas, it is unknown which one is the master
}

// sent asks for the slots if they are old, or if a node has redirected a call of a pipeline.
func (p *Pipelines) sent(calls []*Call) {
	age := slotsAge
	if slices.ContainsFunc(calls, func(c *Call) bool { return errors.Is(c.Err, errRedirected) }) {
		age = movedSlotsAge
	}
	p.refresh(age)
}

// refresh asks for the slots, in the background, unless that was done within age. It asks several nodes,
// since one may hang. The first answer counts.
func (p *Pipelines) refresh(age time.Duration) {
	now, asked := time.Now().UnixNano(), p.asked.Load()
	since := time.Duration(now - asked) // below 0 if the clock was set back
	if since >= 0 && since < age || !p.asked.CompareAndSwap(asked, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), slotsTimeout)
		defer cancel()
		replies, asks := make(chan rueidis.RedisResult, nodesAsked), 0
		for _, node := range p.redis.Nodes() { // in random order
			if asks == nodesAsked {
				break
			}
			asks++
			go func() { replies <- node.Do(ctx, node.B().ClusterSlots().Build()) }()
		}
		for range asks {
			result := <-replies
			switch reply, err := result.ToArray(); {
			case err == nil:
				p.set(reply)
				return
			case Answers(err) && p.known() == nil: // the slots are forbidden: all are of one node
				p.slots.Store(&[]slotRange{{last: 1<<14 - 1}})
				return
			}
		}
	}()
}

// set reads a reply to CLUSTER SLOTS: of each range its first and last slot and its nodes, the master
// first. A node that has failed is in no reply. While rueidis still sends calls to it, its slots stay its
// own.
func (p *Pipelines) set(reply []rueidis.RedisMessage) {
	known := make(map[string]*Pipeline)
	for _, r := range p.known() {
		known[r.node] = r.pipeline
	}
	var slots []slotRange
	present := make(map[string]bool)
	for _, message := range reply {
		r := ReadReply(message)
		first, last, master := r.Number(), r.Number(), ""
		for r.Len() > 0 {
			address, ok := addressOf(ReadReply(r.Next()))
			if present[address] = true; master == "" {
				master = address
			}
			if !ok {
				return
			}
		}
		if !r.OK() || master == "" {
			return
		}
		if known[master] == nil {
			known[master] = &Pipeline{Redis: p.redis, Collect: p.collect, nodes: p}
		}
		slots = append(slots, slotRange{first, last, master, known[master]})
	}
	reached := p.redis.Nodes()
	for _, r := range p.known() {
		if reached[r.node] != nil && !present[r.node] {
			return
		}
	}
	slices.SortFunc(slots, func(a, b slotRange) int { return int(a.last - b.last) })
	p.slots.Store(&slots)
}

// addressOf reads the address of a node of CLUSTER SLOTS. No host, or "", is the host that was asked.
func addressOf(r Reply) (address string, ok bool) {
	message := r.Next()
	host, err := message.ToString()
	address = net.JoinHostPort(host, strconv.FormatInt(r.Number(), 10))
	return address, r.OK() && (err == nil || rueidis.IsRedisNil(err))
}
