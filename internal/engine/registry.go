package engine

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// registry holds the state of limiters: an entry for each ID that has shared calls in flight, waiters or
// prefetches, and none for any other.
type registry struct {
	entries sync.Map // ID -> *entry
	active  activities
	index   index // of the entries with a queue or prefetches
}

// entry is the state of one limiter.
type entry struct {
	mu       sync.Mutex
	id       string
	keys     []string      // under which the index has it, or nil
	removed  bool          // from the registry
	activity *atomic.Int32 // of its ID: see activities

	collecting  []*Batch // batches of requests of Try, in order of arrival; the first is sent next
	calls       int      // shared calls in flight, including the one that is about to be sent
	dispatching bool     // a call is about to take the first batch

	queue      *queue       // of waiters, or nil
	prefetches *prefetchSet // or nil
}

// lockEntry returns the entry of a limiter, locked. It is to be unlocked with unlockEntry, unless it has a
// batch or a queue by then.
func (r *registry) lockEntry(id string) *entry {
	for {
		if e := r.lockExisting(id); e != nil {
			return e
		}
		e := &entry{id: id, activity: r.active.counterOf(id)}
		e.mu.Lock()
		if _, found := r.entries.LoadOrStore(id, e); !found {
			e.activity.Add(1)
			return e
		}
	}
}

// lockExisting returns the entry of an ID, locked, or nil if there is none.
func (r *registry) lockExisting(id string) *entry {
	found, ok := r.entries.Load(id)
	if !ok {
		return nil
	}
	e := found.(*entry) //nolint:errcheck,forcetypeassert // nothing else is there
	if e.mu.Lock(); !e.removed {
		return e
	}
	e.mu.Unlock()
	return nil
}

// all returns all entries.
func (r *registry) all() (all []*entry) {
	for _, e := range r.entries.Range {
		all = append(all, e.(*entry)) //nolint:errcheck,forcetypeassert // nothing else is there
	}
	return all
}

// unlockEntry unlocks an entry, and removes it if it is idle.
func (r *registry) unlockEntry(e *entry) {
	if len(e.collecting) == 0 && e.calls == 0 && e.queue == nil && e.prefetches == nil {
		e.removed = true
		r.index.remove(e)
		r.entries.Delete(e.id)
		e.activity.Add(-1)
	}
	e.mu.Unlock()
}

// index maps keys to the entries of the limiters that depend on them.
type index struct {
	mu   sync.Mutex
	keys sync.Map // key -> []*entry; unlike a map, it frees the memory of removed keys
}

// get returns the entries of a key. The index is locked.
func (x *index) get(key string) []*entry {
	found, _ := x.keys.Load(key)
	entries, _ := found.([]*entry)
	return entries
}

// add adds an entry under the keys of its limiter, unless it is there. The entry is locked.
func (x *index) add(e *entry, keys []string) {
	if e.keys != nil {
		return
	}
	e.keys = keys
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range keys {
		x.keys.Store(key, append(x.get(key), e))
	}
}

// remove removes an entry, if it is there. The entry is locked.
func (x *index) remove(e *entry) {
	if e.keys == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range e.keys {
		entries := x.get(key)
		if at := slices.Index(entries, e); at >= 0 {
			entries = slices.Delete(entries, at, at+1)
		}
		if len(entries) == 0 {
			x.keys.Delete(key)
		} else {
			x.keys.Store(key, entries)
		}
	}
	e.keys = nil
}

// entriesOf returns the entries of the limiters that depend on a key.
func (x *index) entriesOf(key string) []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.get(key))
}

// changes counts the changes of limiters by this Client, by a hash of their keys. Few keys share a counter: then a
// change of one has Redis asked once more for the other. A nil *changes counts nothing.
type changes [1 << 14]keyChanges

// keyChanges counts the changes of the keys with one hash.
type keyChanges struct {
	ended    atomic.Uint32
	inFlight atomic.Int32
}

func (c *changes) changesOf(key string) *keyChanges {
	return &c[maphash.String(seed, key)%uint64(len(c))]
}

// versionOf returns a number that grows with each change of these keys.
func (c *changes) versionOf(keys []string) (version uint64) {
	if c != nil {
		for _, key := range keys {
			version += uint64(c.changesOf(key).ended.Load())
		}
	}
	return version
}

// raise counts a change of these keys, which ends what was known of the limiters that depend on them.
func (c *changes) raise(keys []string) {
	if c != nil {
		for _, key := range keys {
			c.changesOf(key).ended.Add(1)
		}
	}
}

// addInFlight adds to the number of changes of these keys that are in flight.
func (c *changes) addInFlight(keys []string, more int32) {
	for _, key := range keys {
		c.changesOf(key).inFlight.Add(more)
	}
}

// areInFlight reports whether a change of one of these keys is in flight.
func (c *changes) areInFlight(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return c.changesOf(key).inFlight.Load() > 0 })
}

// transfer is a prefetch that is being fetched or refunded. Flush and a change of its limiter wait for it.
type transfer struct {
	keys []string      // that the limiter depends on
	done chan struct{} // closed once the prefetch is stored or refunded, or there was none
	err  error         // set before done is closed
}

// transfers is a set of transfers.
type transfers struct{ sync.Map }

func (s *transfers) begin(keys []string) *transfer {
	t := &transfer{keys: keys, done: make(chan struct{})}
	s.Store(t, nil)
	return t
}

func (s *transfers) end(t *transfer, err error) {
	t.err = err
	s.Delete(t)
	close(t.done)
}

// of returns the transfers of limiters that depend on one of these keys.
func (s *transfers) of(keys []string) (all []*transfer) {
	for _, t := range s.all() {
		if slices.ContainsFunc(t.keys, func(key string) bool { return slices.Contains(keys, key) }) {
			all = append(all, t)
		}
	}
	return all
}

func (s *transfers) all() (all []*transfer) {
	for t := range s.Range {
		all = append(all, t.(*transfer)) //nolint:errcheck,forcetypeassert // nothing else is there
	}
	return all
}

// longTransfer is how long others wait for a prefetch in transit: about as long as a call whose slot
// moves. A refund goes on after that. If only the link is slow, a call that is sent then is
// behind it on the connection.
const longTransfer = 250 * time.Millisecond

// await waits for transfers until ctx is done, but at most longTransfer. They go on.
func await(ctx context.Context, all []*transfer) {
	ctx, cancel := context.WithTimeout(ctx, longTransfer)
	defer cancel()
	for _, t := range all {
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		}
	}
}
