package engine

import (
	"slices"
	"sync"
)

// index tells which IDs depend on a subject.
type index struct {
	mu  sync.Mutex
	ids shrinking[[]string]
}

// subjects is what the answers of a limiter depend on.
func (l *Limiter) subjects() []string {
	if l.Subjects == nil {
		return []string{l.ID}
	}
	return l.Subjects
}

func (x *index) add(id string, subjects []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, subject := range subjects {
		x.ids.set(subject, append(x.ids.all[subject], id))
	}
}

// remove takes back what add did.
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

// of is the IDs that depend on a subject.
func (x *index) of(subject string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.ids.all[subject])
}
