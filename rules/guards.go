package rules

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// guards decides by a file that changes. It has one D for all rules with the same settings. The
// first request that needs a D opens it.
type guards[D any] struct {
	set *Set
	*opener
	open func(settings) D

	current atomic.Pointer[snapshot]
	mu      sync.Mutex // of requests that open and close
	opened  sync.Map   // settings to D

	// The state of Redis, by the deadline of the settings. It is kept as long as the file has the
	// deadline, even if a guard with other settings replaces one. Permits granted without Redis are
	// shared by all, and kept longer.
	shared map[time.Duration]*guard.Shared
	first  *guard.Shared
}

// now returns the current file. A guard is kept if its settings are.
func (d *guards[D]) now() *snapshot {
	file := d.set.file()
	if d.current.Load() != file {
		d.adopt()
	}
	return file
}

// adopt closes the guards with settings that the file no longer has.
func (d *guards[D]) adopt() {
	for _, shared := range d.close() {
		defer shared.Retire() // without the lock, since it calls a callback
	}
}

// close drops the guards with settings that the newest file does not have. It uses the newest file,
// since a request may have read an older one. It returns the state that no other guard shares.
func (d *guards[D]) close() []*guard.Shared {
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

// of returns the guard of some settings.
func (d *guards[D]) of(s settings) D {
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

// has reports whether the file has some settings. A request of an older file may need others. The
// lock is held.
func (d *guards[D]) has(s settings) bool {
	_, ok := d.current.Load().settings[s]
	return ok
}

// sharing returns what a guard of some settings shares with others. The lock is held when it is
// called.
func (d *guards[D]) sharing(s settings) guard.Sharing {
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
