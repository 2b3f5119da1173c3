package redisx

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Nodes knows which node of a Redis Cluster has which slots. It may be a minute old: rueidis routes the
// calls. If CLUSTER SLOTS is forbidden, it knows none.
type Nodes struct {
	redis rueidis.Client

	slots atomic.Pointer[[]slotRange]
	asked atomic.Int64 // when, Unix nanoseconds
}

// slotRange is a range of slots and its node.
type slotRange struct {
	first, last int64
	node        string
}

// The age of slots that are asked for again: usually, and if a node has redirected a call or they are
// not known.
const (
	slotsAge      = time.Minute
	movedSlotsAge = time.Second
)

// slotsTimeout bounds the question for the slots, which may reach a node that hangs.
const slotsTimeout = 5 * time.Second

// NewNodes returns the Nodes of a Redis.
func NewNodes(redis rueidis.Client) *Nodes { return &Nodes{redis: redis} }

// single reports whether there is only one node. Late may change it.
func (n *Nodes) single() bool {
	return n.redis == nil || n.redis.Mode() != rueidis.ClientModeCluster
}

func (n *Nodes) known() []slotRange {
	if slots := n.slots.Load(); slots != nil {
		return *slots
	}
	return nil
}

// rangeOf returns the range of a slot, or the zero range if its node is not known yet.
func (n *Nodes) rangeOf(slot int64) slotRange {
	slots := n.known()
	i, _ := slices.BinarySearchFunc(slots, slot, func(r slotRange, slot int64) int { return int(r.last - slot) })
	if i == len(slots) || slot < slots[i].first {
		n.refresh(movedSlotsAge)
		return slotRange{}
	}
	return slots[i]
}

// Node returns the address of the node of a key. It is "" if there is only one, or if it is not known
// yet. With moved, it may be a second old, else a minute.
func (n *Nodes) Node(key string, moved bool) string {
	if n.single() {
		return ""
	}
	age := slotsAge
	if moved {
		age = movedSlotsAge
	}
	n.refresh(age)
	return n.rangeOf(int64(Slot(key))).node
}

// Address returns the address of a node for reports and errors, also of the only one.
func (n *Nodes) Address(node string) string {
	if node != "" || n.redis == nil || !n.single() {
		return node
	}
	for address := range n.redis.Nodes() {
		return address
	}
	return ""
}

// refresh asks for the slots, in the background, unless that was done within age.
func (n *Nodes) refresh(age time.Duration) {
	now, asked := time.Now().UnixNano(), n.asked.Load()
	since := time.Duration(now - asked) // below 0 if the clock was set back
	if since >= 0 && since < age || !n.asked.CompareAndSwap(asked, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), slotsTimeout)
		defer cancel()
		reply, err := n.redis.Do(ctx, n.redis.B().ClusterSlots().Build()).ToArray()
		if err == nil {
			n.set(reply)
		}
	}()
}

// set reads a reply to CLUSTER SLOTS: of each range its first and last slot and its nodes, the master
// first.
func (n *Nodes) set(reply []rueidis.RedisMessage) {
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
		slots = append(slots, slotRange{first, last, node})
	}
	slices.SortFunc(slots, func(a, b slotRange) int { return int(a.last - b.last) })
	n.slots.Store(&slots)
}
