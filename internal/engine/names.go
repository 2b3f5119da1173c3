package engine

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// names is what an Engine keeps of limiters: an entry for each ID that has calls under way, and nothing of any other.
// Its locks are held for a look into a map. What takes longer has the entry's own lock, so that no name waits for another.
type names struct {
	seed   maphash.Seed
	shards [64]shard
	live   atomic.Int64 // entries: none once nothing is under way
}

// shard is a part of the names.
type shard struct {
	mu   sync.Mutex
	byID shrinking[*entry]
}

// entry is an ID with calls under way.
type entry struct {
	mu   sync.Mutex
	id   string
	gone bool // nothing is under way, and the names have it no more

	first, last *Batch // that gather, of callers that ask once, in order of arrival; the first leaves next
	calls       int    // of theirs under way, the one about to leave included
	leaving     bool   // a call is about to take the first batch along

	queue *queue // the callers that wait, or nil

	holding *holding // what is leased, or nil
}

func (n *names) init() { n.seed = maphash.MakeSeed() }

func (n *names) shard(id string) *shard {
	return &n.shards[maphash.String(n.seed, id)%uint64(len(n.shards))]
}

// lock gives the entry of a limiter, locked. It is to be unlocked with unlock.
func (n *names) lock(l *Limiter) *entry {
	// Mostly the entry is still the one that this Limiter met before.
	if e := l.met.Load(); e != nil {
		e.mu.Lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock()
	}
	s := n.shard(l.ID)
	s.mu.Lock()
	e, ok := s.byID.all[l.ID]
	if !ok {
		e = &entry{id: l.ID}
		s.byID.set(l.ID, e)
		n.live.Add(1)
	}
	e.mu.Lock()
	s.mu.Unlock()
	l.met.Store(e)
	return e
}

// find gives the entry of an ID, locked, where it has calls under way, else nil.
func (n *names) find(id string) *entry {
	s := n.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID.all[id]
	if e != nil {
		e.mu.Lock()
	}
	return e
}

// ids is those with an entry.
func (n *names) ids() (ids []string) {
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		ids = slices.AppendSeq(ids, maps.Keys(s.byID.all))
		s.mu.Unlock()
	}
	return ids
}

// unlock unlocks an entry, and removes it where nothing is under way for its name.
func (n *names) unlock(e *entry) {
	idle := e.idle()
	e.mu.Unlock()
	if !idle {
		return
	}
	s := n.shard(e.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.gone && e.idle() {
		e.gone = true
		s.byID.remove(e.id)
		n.live.Add(-1)
	}
}

func (e *entry) idle() bool {
	return e.first == nil && e.calls == 0 && e.queue == nil && e.holding == nil
}

// push puts a batch behind those that gather.
func (e *entry) push(b *Batch) {
	if b.prev = e.last; e.last != nil {
		e.last.next = b
	} else {
		e.first = b
	}
	e.last = b
}

// remove takes a batch off those that gather.
func (e *entry) remove(b *Batch) {
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		e.first = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	} else {
		e.last = b.prev
	}
	b.next, b.prev = nil, nil
}
