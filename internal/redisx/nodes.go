package redisx

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Nodes knows which node of a Redis Cluster has which slots. It may be a minute old: rueidis routes the
// calls. If CLUSTER SLOTS is forbidden, the cluster counts as one node.
type Nodes struct {
	redis rueidis.Client

	slots   atomic.Pointer[[]SlotRange] // the known ones, by their order
	version atomic.Uint64               // of the slots
	asked   atomic.Int64                // when, Unix nanoseconds
}

// Slots is the number of slots of a Redis Cluster.
const Slots = 1 << 14

// SlotRange is a range of slots, with its last one, and the addresses of its nodes, the master first.
type SlotRange struct {
	First, Last int64
	Nodes       []string
}

// The age of slots that are asked for again: usually, and if a node has redirected a call or they are
// not known.
const (
	slotsAge      = time.Minute
	movedSlotsAge = time.Second
)

// nodesAsked is how many nodes are asked for the slots at once, since some may hang.
const nodesAsked = 4

// NewNodes returns the Nodes of a Redis.
func NewNodes(redis rueidis.Client) *Nodes {
	n := &Nodes{redis: redis}
	n.slots.Store(new([]SlotRange))
	return n
}

// single reports whether there is only one node. Late may change it.
func (n *Nodes) single() bool {
	return n.redis == nil || n.redis.Mode() != rueidis.ClientModeCluster
}

// Node returns the node of a key: its address on a cluster, or "" for the only one. While the address is
// not known, the slot counts as a node of its own. With moved, the answer may be a second old, else a
// minute.
func (n *Nodes) Node(key string, moved bool) string {
	if n.single() {
		return ""
	}
	age := slotsAge
	if moved {
		age = movedSlotsAge
	}
	n.refresh(age)
	slots, slot := *n.slots.Load(), int64(Slot(key))
	i, _ := slices.BinarySearchFunc(slots, slot, func(r SlotRange, slot int64) int { return int(r.Last - slot) })
	if i < len(slots) && slot >= slots[i].First {
		return slots[i].Nodes[0]
	}
	n.refresh(movedSlotsAge)
	return slotNode + strconv.FormatInt(slot, 10)
}

// slotNode begins the node of a slot whose address is not known.
const slotNode = "slot "

// Address returns the address of a node for reports and errors, "" if it is unknown.
func (n *Nodes) Address(node string) string {
	switch {
	case strings.HasPrefix(node, slotNode):
		return ""
	case node != "" || n.redis == nil || !n.single():
		return node
	}
	nodes := n.redis.Nodes()
	for address := range nodes {
		if len(nodes) == 1 {
			return address
		}
	}
	return "" // with replicas, it is unknown which one is the master
}

// refresh asks for the slots, in the background, unless that was done within age. It asks several nodes,
// since one may hang. The first answer counts.
func (n *Nodes) refresh(age time.Duration) {
	now, asked := time.Now().UnixNano(), n.asked.Load()
	since := time.Duration(now - asked) // below 0 if the clock was set back
	if since >= 0 && since < age || !n.asked.CompareAndSwap(asked, now) {
		return
	}
	go n.ask()
}

// NodeNow is Node with slots that are asked for now, unless no answer comes within a time.
func (n *Nodes) NodeNow(key string, within time.Duration) string {
	if !n.single() {
		n.asked.Store(time.Now().UnixNano())
		answered := make(chan struct{})
		go func() { n.ask(); close(answered) }()
		timer := time.NewTimer(within)
		defer timer.Stop()
		select {
		case <-answered:
		case <-timer.C:
		}
	}
	return n.Node(key, false)
}

// ask asks for the slots.
func (n *Nodes) ask() {
	replies, asks := make(chan rueidis.RedisResult, nodesAsked), 0
	for _, node := range n.redis.Nodes() { // in random order
		if asks == nodesAsked {
			break
		}
		asks++
		// If the context could end, it would end the dial of a connection that calls wait for. A command
		// that is no read of rueidis' builder is not sent again.
		command := node.B().Arbitrary("CLUSTER", "SLOTS").Build()
		go func() { replies <- node.Do(context.Background(), command) }()
	}
	for range asks {
		result := <-replies
		switch reply, err := result.ToArray(); {
		case err == nil:
			n.set(reply)
			return
		case Answers(err) && len(*n.slots.Load()) == 0: // the slots are forbidden: all are of one node
			n.store([]SlotRange{{Last: Slots - 1, Nodes: []string{""}}})
			return
		}
	}
}

// set keeps a reply to CLUSTER SLOTS. A node that has failed is in no reply. While rueidis still sends calls to it, its
// slots stay its own.
func (n *Nodes) set(reply []rueidis.RedisMessage) {
	slots, ok := ReadSlots(reply, "")
	if !ok {
		return
	}
	present := make(map[string]bool)
	for _, r := range slots {
		for _, address := range r.Nodes {
			present[address] = true
		}
	}
	reached := n.redis.Nodes()
	for _, r := range *n.slots.Load() {
		if reached[r.Nodes[0]] != nil && !present[r.Nodes[0]] {
			return
		}
	}
	slices.SortFunc(slots, func(a, b SlotRange) int { return int(a.Last - b.Last) })
	n.store(slots)
}

// ReadSlots reads a reply to CLUSTER SLOTS. A node that does not know its own host has that of the address that was
// asked. It returns false for another reply.
func ReadSlots(reply []rueidis.RedisMessage, asked string) (all []SlotRange, ok bool) {
	for _, message := range reply {
		r := ReadReply(message)
		slots := SlotRange{First: r.Number(), Last: r.Number()}
		for r.Len() > 0 {
			address, ok := addressOf(ReadReply(r.Next()), asked)
			if !ok {
				return nil, false
			}
			slots.Nodes = append(slots.Nodes, address)
		}
		if !r.OK() || len(slots.Nodes) == 0 {
			return nil, false
		}
		all = append(all, slots)
	}
	return all, true
}

func (n *Nodes) store(slots []SlotRange) {
	n.slots.Store(&slots)
	n.version.Add(1)
}

// Version returns a number that changes after each answer to Node that does. The slots may be a minute old.
func (n *Nodes) Version() uint64 {
	if !n.single() {
		n.refresh(slotsAge)
	}
	return n.version.Load()
}

// addressOf reads the address of a node of CLUSTER SLOTS.
func addressOf(r Reply, asked string) (address string, ok bool) {
	message := r.Next()
	host, err := message.ToString()
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(asked)
	}
	address = net.JoinHostPort(host, strconv.FormatInt(r.Number(), 10))
	return address, r.OK() && (err == nil || rueidis.IsRedisNil(err))
}

// crcTable is CRC-16/XMODEM (polynomial 0x1021) by byte: the hash of Redis Cluster.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			crc = crc<<1 ^ crc>>15*0x1021
		}
		table[i] = crc
	}
	return table
}()

// Slot returns the hash slot of a key on a Redis Cluster: the hash of its tag. Each request through a guard
// needs one, and clients may choose long keys.
func Slot(key string) uint16 {
	tag := Tag(key)
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % Slots
}

// Tag returns the hash tag of a key: the text between the first "{" and the first "}" after it. If
// that is empty or missing, it is the whole key.
func Tag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length]
		}
	}
	return key
}

// Part is what several clients keep of a limiter beside its keys.
type Part string

// The parts.
const (
	Waiters Part = "waiters" // the Clients with waiters
	Settled Part = "settled" // that a call of Once has run
)

// Beside returns the key of a part of a limiter with these texts, in the slot of the first one, which is a key.
func Beside(part Part, texts ...string) string {
	sum := fnv.New64a()
	for _, text := range texts {
		_, _ = fmt.Fprintf(sum, "%d %s", len(text), text)
	}
	return "{" + Tag(texts[0]) + "}:" + string(part) + ":" + hex.EncodeToString(sum.Sum(nil))
}
