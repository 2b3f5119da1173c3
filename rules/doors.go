package rules

import (
	"sync"
	"sync/atomic"
)

// doors is what decides by a file that changes: one D for all rules of the same settings.
type doors[D any] struct {
	set *Set
	*opener
	open func(settings) D

	mu      sync.Mutex // of who makes another view
	current atomic.Pointer[view[D]]
}

// view is a file as its doors see it.
type view[D any] struct {
	*snapshot
	bySettings map[settings]D
}

// now is the view of the file as it is now. What is known of Redis stays, with the doors of settings that stay.
func (d *doors[D]) now() *view[D] {
	file := d.set.file()
	if v := d.current.Load(); v != nil && v.snapshot == file {
		return v
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.current.Load()
	if before != nil && before.snapshot == file {
		return before
	}
	v := &view[D]{file, make(map[settings]D)}
	for _, s := range file.settings {
		if before != nil {
			if door, ok := before.bySettings[s]; ok {
				v.bySettings[s] = door
				continue
			}
		}
		v.bySettings[s] = d.open(s)
	}
	d.current.Store(v)
	return v
}
