package redisx

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Pipelines has the Pipeline of a Redis, or one for each node of a Redis Cluster. rueidis returns the
// results of a pipeline when all of its nodes have replied. No call should wait for another node.
//
// What it knows of the slots decides only which calls share a pipeline: rueidis routes them. It may be
// a minute old. If CLUSTER SLOTS is forbidden, calls are sent alone.
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

// slotsTimeout bounds the question for the slots, which may reach a node that hangs.
const slotsTimeout = 5 * time.Second

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

// Node returns the address of the node of a key. It is "" if there is only one, or if it is not known
// yet. With moved, it may be a second old, else a minute.
func (p *Pipelines) Node(key string, moved bool) string {
	if p.single() {
		return ""
	}
	age := slotsAge
	if moved {
		age = movedSlotsAge
	}
	p.refresh(age)
	return p.rangeOf(int64(Slot(key))).node
}

// Address returns the address of a node for reports and errors, also of the only one.
func (p *Pipelines) Address(node string) string {
	if node != "" || p.redis == nil || !p.single() {
		return node
	}
	for address := range p.redis.Nodes() {
		return address
	}
	return ""
}

// sent asks for the slots if they are old, or if a node has redirected a call of a pipeline.
func (p *Pipelines) sent(calls []*Call) {
	age := slotsAge
	if slices.ContainsFunc(calls, func(c *Call) bool { return errors.Is(c.Err, errRedirected) }) {
		age = movedSlotsAge
	}
	p.refresh(age)
}

// refresh asks for the slots, in the background, unless that was done within age.
func (p *Pipelines) refresh(age time.Duration) {
	now, asked := time.Now().UnixNano(), p.asked.Load()
	since := time.Duration(now - asked) // below 0 if the clock was set back
	if since >= 0 && since < age || !p.asked.CompareAndSwap(asked, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), slotsTimeout)
		defer cancel()
		reply, err := p.redis.Do(ctx, p.redis.B().ClusterSlots().Build()).ToArray()
		if err == nil {
			p.set(reply)
		}
	}()
}

// set reads a reply to CLUSTER SLOTS: of each range its first and last slot and its nodes, the master
// first.
func (p *Pipelines) set(reply []rueidis.RedisMessage) {
	known := make(map[string]*Pipeline)
	for _, r := range p.known() {
		known[r.node] = r.pipeline
	}
	var slots []slotRange
	for _, message := range reply {
		r := ReadReply(message)
		first, last, master := r.Number(), r.Number(), ReadReply(r.Next())
		host := master.Next()
		name, err := host.ToString() // nil, as "", is the host that was asked
		node := net.JoinHostPort(name, strconv.FormatInt(master.Number(), 10))
		if err != nil && !rueidis.IsRedisNil(err) || !r.OK() || !master.OK() {
			return
		}
		if known[node] == nil {
			known[node] = &Pipeline{Redis: p.redis, Collect: p.collect, nodes: p}
		}
		slots = append(slots, slotRange{first, last, node, known[node]})
	}
	slices.SortFunc(slots, func(a, b slotRange) int { return int(a.last - b.last) })
	p.slots.Store(&slots)
}
