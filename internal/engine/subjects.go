package engine

import (
	"slices"
	"sync"
)

// index tells which IDs depend on a subject, besides the ID of that name.
type index struct {
	mu  sync.Mutex
	ids map[string][]string
}

func (x *index) add(l *Limiter) {
	if l.Subjects == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ids == nil {
		x.ids = make(map[string][]string)
	}
	for _, subject := range l.Subjects {
		x.ids[subject] = append(x.ids[subject], l.ID)
	}
}

// remove takes back what add did.
func (x *index) remove(l *Limiter) {
	if l.Subjects == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, subject := range l.Subjects {
		ids := x.ids[subject]
		if at := slices.Index(ids, l.ID); at >= 0 {
			ids = slices.Delete(ids, at, at+1)
		}
		if x.ids[subject] = ids; len(ids) == 0 {
			delete(x.ids, subject)
		}
	}
}

// of is the IDs that depend on a subject.
func (x *index) of(subject string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.ids[subject])
}
