package engine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// shrinking is a map that frees memory when it becomes small: a map of Go keeps the memory of its
// largest size.
type shrinking[V any] struct {
	all  map[string]V
	peak int // of its length since all was made
}

// small is the length up to which a map is not rebuilt.
const small = 64

func (m *shrinking[V]) set(key string, value V) {
	if m.all == nil {
		m.all = make(map[string]V)
	}
	m.all[key] = value
	m.peak = max(m.peak, len(m.all))
}

func (m *shrinking[V]) remove(key string) {
	delete(m.all, key)
	if m.peak <= small || len(m.all) > m.peak/8 {
		return
	}
	less := make(map[string]V, len(m.all))
	for key, value := range m.all {
		less[key] = value
	}
	m.all, m.peak = less, len(less)
}

// index maps subjects to the IDs of limiters that depend on them.
type index struct {
	mu  sync.Mutex
	ids shrinking[[]string]
}

func (x *index) add(id string, subjects []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, subject := range subjects {
		x.ids.set(subject, append(x.ids.all[subject], id))
	}
}

// remove reverts add.
func (x *index) remove(id string, subjects []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, subject := range subjects {
		ids := x.ids.all[subject]
		if at := slices.Index(ids, id); at >= 0 {
			ids = slices.Delete(ids, at, at+1)
		}
		if len(ids) == 0 {
			x.ids.remove(subject)
		} else {
			x.ids.set(subject, ids)
		}
	}
}

// of returns the IDs that depend on a subject.
func (x *index) of(subject string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.ids.all[subject])
}

// registry holds the state of limiters: an entry for each ID that has calls in flight, waiters or
// leases, and none for any other.
type registry struct {
	entries sync.Map     // ID -> *entry
	live    atomic.Int64 // entries
}

// entry is the state of one limiter.
type entry struct {
	mu   sync.Mutex
	id   string
	gone bool // removed from the registry

	first, last *Batch // that gather, of callers that ask once, in order of arrival; the first leaves next
	calls       int    // of theirs under way, the one about to leave included
	dispatching bool   // a call is about to take the first batch along

	queue *queue // the callers that wait, or nil

	leases *leaseSet // the leased permits, or nil
}

// lock returns the entry of a limiter, locked. It is to be unlocked with unlock.
func (n *registry) lock(l *Limiter) *entry {
	for {
		if e := n.find(l.ID); e != nil {
			return e
		}
		e := &entry{id: l.ID}
		e.mu.Lock()
		if _, found := n.entries.LoadOrStore(l.key(), e); !found {
			n.live.Add(1)
			return e
		}
	}
}

// find returns the entry of an ID, locked, or nil if there is none.
func (n *registry) find(id string) *entry {
	found, ok := n.entries.Load(id)
	if !ok {
		return nil
	}
	e := found.(*entry) //nolint:errcheck,forcetypeassert // nothing else is there
	e.mu.Lock()
	if e.gone {
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

// unlock unlocks an entry, and removes it if it is idle.
func (n *registry) unlock(e *entry) {
	if e.idle() {
		e.gone = true
		n.entries.Delete(e.id)
		n.live.Add(-1)
	}
	e.mu.Unlock()
}

func (e *entry) idle() bool {
	return e.first == nil && e.calls == 0 && e.queue == nil && e.leases == nil
}

// push appends a batch to those that collect requests.
func (e *entry) push(b *Batch) {
	if b.prev = e.last; e.last != nil {
		e.last.next = b
	} else {
		e.first = b
	}
	e.last = b
}

// remove removes a batch from those that collect requests.
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
