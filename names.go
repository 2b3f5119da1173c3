package rratelimiter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// names is what a Client keeps of limiters' names: an entry for each that has calls under way, and nothing of any other.
// Its locks are held for a look into a map; what takes longer has the entry's own lock, so that no name waits for another.
type names struct {
	seed    maphash.Seed
	shards  [64]shard
	live    atomic.Int64 // entries: none once nothing is under way
	entries sync.Pool
}

// shard is a part of the names.
type shard struct {
	mu    sync.Mutex
	byKey map[string]*entry
	_     [48]byte // shards do not share a line of cache
}

// entry is a name with calls under way.
type entry struct {
	mu  sync.Mutex
	key string // of the configuration; "" while the entry is out of use

	first, last *batch // that gather, of callers that ask once, in order of arrival; the first leaves next
	calls       int    // of theirs under way, the one about to leave included
	leaving     bool   // a call is about to take the first batch along

	queue *queue // the callers that wait, or nil
}

func (n *names) init() {
	n.seed = maphash.MakeSeed()
	n.entries.New = func() any { return new(entry) }
}

func (n *names) shard(key string) *shard {
	return &n.shards[maphash.String(n.seed, key)%uint64(len(n.shards))]
}

// lock gives the entry of a key, locked. It is to be unlocked with unlock.
func (n *names) lock(l *Limiter) *entry {
	key := l.keys[configKey]
	// Mostly the entry is still the one that this Limiter met before. One that was put away may be another name's by now.
	if e := l.met.Load(); e != nil {
		e.mu.Lock()
		if e.key == key {
			return e
		}
		e.mu.Unlock()
	}
	s := n.shard(key)
	s.mu.Lock()
	e := s.byKey[key]
	if e != nil {
		e.mu.Lock()
	} else {
		e = n.entries.Get().(*entry)
		e.mu.Lock()
		e.key = key
		if s.byKey == nil {
			s.byKey = make(map[string]*entry)
		}
		s.byKey[key] = e
		n.live.Add(1)
	}
	s.mu.Unlock()
	l.met.Store(e)
	return e
}

// find gives the entry of a key, locked, where it has calls under way, else nil.
func (n *names) find(key string) *entry {
	s := n.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e != nil {
		e.mu.Lock()
	}
	return e
}

// unlock unlocks an entry, and puts it away where nothing is under way for its name.
func (n *names) unlock(e *entry) {
	idle, key := e.idle(), e.key
	e.mu.Unlock()
	if !idle {
		return
	}
	s := n.shard(key)
	s.mu.Lock()
	e.mu.Lock()
	gone := e.key == key && e.idle()
	if gone {
		e.key = ""
		delete(s.byKey, key)
		n.live.Add(-1)
	}
	e.mu.Unlock()
	s.mu.Unlock()
	if gone {
		n.entries.Put(e)
	}
}

func (e *entry) idle() bool { return e.first == nil && e.calls == 0 && e.queue == nil }

// push puts a batch behind those that gather.
func (e *entry) push(b *batch) {
	if b.prev = e.last; e.last != nil {
		e.last.next = b
	} else {
		e.first = b
	}
	e.last = b
}

// remove takes a batch off those that gather.
func (e *entry) remove(b *batch) {
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
