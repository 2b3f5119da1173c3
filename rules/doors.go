package rules

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// doors decides by a file that changes: one D for all rules of the same settings, opened by the first request that needs it.
type doors[D any] struct {
	set *Set
	*opener
	open func(settings) D

	current atomic.Pointer[snapshot]
	mu      sync.Mutex // of requests that open and close
	opened  sync.Map   // settings to D

	// What the doors know of Redis, by the deadline of their settings. They come and go with the settings, but this stays as long as
	// the file has the deadline; and what was granted without Redis stays longer, since all share it.
	shared map[time.Duration]*guard.Shared
	first  *guard.Shared
}

// now returns the file as it is now. Doors stay if their settings do.
func (d *doors[D]) now() *snapshot {
	file := d.set.file()
	if d.current.Load() != file {
		d.adopt()
	}
	return file
}

// adopt closes the doors whose settings are not in the file any more.
func (d *doors[D]) adopt() {
	for _, shared := range d.close() {
		defer shared.Retire() // without the lock, since it calls the program
	}
}

// close drops the doors that the newest file has no settings for: the newest one, since a request may have seen an older one. It
// returns what no other door shares.
func (d *doors[D]) close() []*guard.Shared {
	d.mu.Lock()
	defer d.mu.Unlock()
	file := d.set.file()
	if d.current.Swap(file) == file {
		return nil
	}
	d.opened.Range(func(s, _ any) bool {
		if _, stays := file.settings[s.(settings)]; !stays { //nolint:errcheck,forcetypeassert // nothing else is kept there
			d.opened.Delete(s)
		}
		return true
	})
	stays := make(map[time.Duration]bool)
	for s, asks := range file.settings {
		stays[s.deadline] = stays[s.deadline] || asks
	}
	var dropped []*guard.Shared
	for deadline, shared := range d.shared {
		if !stays[deadline] {
			delete(d.shared, deadline)
			dropped = append(dropped, shared)
		}
	}
	return dropped
}

// of returns the door of some settings.
func (d *doors[D]) of(s settings) D {
	if opened, ok := d.opened.Load(s); ok {
		return opened.(D) //nolint:errcheck,forcetypeassert // nothing else is kept there
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if opened, ok := d.opened.Load(s); ok {
		return opened.(D) //nolint:errcheck,forcetypeassert // nothing else is kept there
	}
	made := d.open(s)
	if d.has(s) {
		d.opened.Store(s, made)
	}
	return made
}

// has reports whether the file has some settings. A request of an older file may need others. The lock is held.
func (d *doors[D]) has(s settings) bool {
	_, ok := d.current.Load().settings[s]
	return ok
}

// sharing returns what a door of some settings shares with others. The lock is held when it is called.
func (d *doors[D]) sharing(s settings) guard.Sharing {
	if s.refuses {
		return guard.NewShared // it does not depend on Redis
	}
	return func(deadline time.Duration, changed func(up bool, err error)) *guard.Shared {
		if shared := d.shared[s.deadline]; shared != nil {
			return shared
		}
		if d.first == nil {
			d.first = guard.NewShared(deadline, changed)
			d.shared = make(map[time.Duration]*guard.Shared)
		}
		shared := d.first.Sibling(deadline)
		if d.has(s) {
			d.shared[s.deadline] = shared
		} else {
			shared.Retire()
		}
		return shared
	}
}
