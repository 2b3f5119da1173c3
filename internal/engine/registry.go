package engine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// index maps keys to the IDs of the limiters that depend on them.
type index struct {
	mu  sync.Mutex
	ids sync.Map // key -> []string; unlike a map, it frees the memory of removed keys
}

// get returns the IDs of a key. The index is locked.
func (x *index) get(key string) []string {
	found, _ := x.ids.Load(key)
	ids, _ := found.([]string)
	return ids
}

func (x *index) add(l *Limiter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range l.DependsOn {
		x.ids.Store(key, append(x.get(key), l.ID))
	}
}

// remove reverts add.
func (x *index) remove(l *Limiter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range l.DependsOn {
		ids := x.get(key)
		if at := slices.Index(ids, l.ID); at >= 0 {
			ids = slices.Delete(ids, at, at+1)
		}
		if len(ids) == 0 {
			x.ids.Delete(key)
		} else {
			x.ids.Store(key, ids)
		}
	}
}

// of returns the IDs of the limiters that depend on a key.
func (x *index) of(key string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.get(key))
}

// registry holds the state of limiters: an entry for each ID that has shared calls in flight, waiters or
// prefetches, and none for any other.
type registry struct {
	entries sync.Map // ID -> *entry
	active  activities
}

// entry is the state of one limiter.
type entry struct {
	mu       sync.Mutex
	id       string
	removed  bool          // from the registry
	activity *atomic.Int32 // of its ID: see activities.of

	first, last *Batch // that collect requests of Try, in order of arrival; the first is sent next
	calls       int    // of theirs in flight, the one about to be sent included
	dispatching bool   // a call is about to take the first batch

	queue      *queue       // of waiters, or nil
	prefetches *prefetchSet // or nil
}

// lockEntry returns the entry of a limiter, locked. It is to be unlocked with unlockEntry, unless it has a
// batch or a queue by then.
func (n *registry) lockEntry(l *Limiter) *entry {
	for {
		if e := n.lockExisting(l.ID); e != nil {
			return e
		}
		e := &entry{id: l.ID, activity: n.active.of(l.ID)}
		e.mu.Lock()
		if _, found := n.entries.LoadOrStore(l.ID, e); !found {
			e.activity.Add(1)
			return e
		}
	}
}

// lockExisting returns the entry of an ID, locked, or nil if there is none.
func (n *registry) lockExisting(id string) *entry {
	found, ok := n.entries.Load(id)
	if !ok {
		return nil
	}
	e := found.(*entry) //nolint:errcheck,forcetypeassert // nothing else is there
	e.mu.Lock()
	if e.removed {
		e.mu.Unlock()
		return nil
	}
	return e
}

// ids returns the IDs that have an entry.
func (n *registry) ids() (ids []string) {
	for id := range n.entries.Range {
		ids = append(ids, id.(string)) //nolint:errcheck,forcetypeassert // nothing else is there
	}
	return ids
}

// unlockEntry unlocks an entry, and removes it if it is idle.
func (n *registry) unlockEntry(e *entry) {
	if e.idle() {
		e.removed = true
		n.entries.Delete(e.id)
		e.activity.Add(-1)
	}
	e.mu.Unlock()
}

func (e *entry) idle() bool {
	return e.first == nil && e.calls == 0 && e.queue == nil && e.prefetches == nil
}

// push appends a batch to those that collect requests.
func (e *entry) push(b *Batch) {
	if e.last != nil {
		e.last.open.next = b
	} else {
		e.first = b
	}
	e.last = b
}
