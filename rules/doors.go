package rules

import (
	"sync"
	"sync/atomic"
)

// doors is what decides by a file that changes: one D for all rules of the same settings, opened when a request needs it first.
type doors[D any] struct {
	set *Set
	*opener
	open func(settings) D

	current atomic.Pointer[snapshot]
	mu      sync.Mutex // of who opens and closes
	opened  sync.Map   // settings to D
}

// now is the file as it is now. What is known of Redis stays, with the doors of settings that stay.
func (d *doors[D]) now() *snapshot {
	file := d.set.file()
	if d.current.Load() != file {
		d.adopt()
	}
	return file
}

// adopt closes the doors that the file has no settings for any more: the newest file, since who asks may have seen one before.
func (d *doors[D]) adopt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	file := d.set.file()
	if d.current.Swap(file) == file {
		return
	}
	d.opened.Range(func(s, _ any) bool {
		if _, stays := file.settings[s.(settings)]; !stays { //nolint:errcheck,forcetypeassert // nothing else is kept there
			d.opened.Delete(s)
		}
		return true
	})
}

// of is the door of some settings.
func (d *doors[D]) of(s settings) D {
	door, ok := d.opened.Load(s)
	if !ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		if door, ok = d.opened.Load(s); !ok {
			door = d.open(s)
			d.opened.Store(s, door)
		}
	}
	return door.(D) //nolint:errcheck,forcetypeassert // nothing else is kept there
}
