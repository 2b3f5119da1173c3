package rules

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// middlewares decides by a file that changes. M is a middleware; all rules with the same settings
// share one.
type middlewares[M any] struct {
	set    *Set
	client *rratelimiter.Client
	open   func(settings, func(*guard.Settings)) M

	current atomic.Pointer[version[M]]
	mu      sync.Mutex // guards the fields below, and changes of current

	// The state of Redis, by the deadline of the settings. It is kept as long as the file has the
	// deadline. Permits granted without Redis are shared by all, and kept longer.
	shared map[time.Duration]*guard.Shared
	first  *guard.Shared
}

func newMiddlewares[M any](caller string, set *Set, client *rratelimiter.Client,
	open func(settings, func(*guard.Settings)) M) *middlewares[M] {
	if client == nil {
		panic("rules: " + caller + ": the client is nil")
	}
	return &middlewares[M]{set: set, client: client, open: open}
}

// version is a version of the file, with the middlewares that requests have needed.
type version[M any] struct {
	*middlewares[M]
	opener *opener
	file   *snapshot
	opened sync.Map // settings to M
}

// now returns the current version.
func (m *middlewares[M]) now() *version[M] {
	if v := m.current.Load(); v != nil && v.file == m.set.file() {
		return v
	}
	for _, shared := range m.update() {
		defer shared.Retire() // without the lock, since it calls a callback
	}
	return m.current.Load()
}

// update makes the newest file current. It returns the states that the file no longer needs.
func (m *middlewares[M]) update() (dropped []*guard.Shared) {
	m.mu.Lock()
	defer m.mu.Unlock()
	file := m.set.file()
	if v := m.current.Load(); v != nil && v.file == file {
		return nil
	}
	m.current.Store(&version[M]{middlewares: m, opener: newOpener(m.client), file: file})
	for deadline, shared := range m.shared {
		if !file.deadlines[deadline] {
			delete(m.shared, deadline)
			dropped = append(dropped, shared)
		}
	}
	return dropped
}

// of returns the middleware with some settings. Concurrent requests may each open one; they share
// its state.
func (v *version[M]) of(s settings) M {
	opened, ok := v.opened.Load(s)
	if !ok {
		opened, _ = v.opened.LoadOrStore(s, v.open(s, func(to *guard.Settings) {
			s.apply(to)
			to.Sharing = v.sharing(s)
		}))
	}
	return opened.(M) //nolint:errcheck,forcetypeassert // it has nothing else
}

// sharing returns the state that a middleware shares with others.
func (v *version[M]) sharing(s settings) guard.Sharing {
	if s.refuses {
		return guard.NewShared // it does not depend on Redis
	}
	return func(deadline time.Duration, changed func(up bool, err error)) *guard.Shared {
		v.mu.Lock()
		defer v.mu.Unlock()
		if shared := v.shared[time.Duration(s.Deadline)]; shared != nil {
			return shared
		}
		if v.first == nil {
			v.first = guard.NewShared(deadline, changed)
			v.shared = make(map[time.Duration]*guard.Shared)
		}
		shared := v.first.Sibling(deadline)
		if v.current.Load().file.deadlines[time.Duration(s.Deadline)] {
			v.shared[time.Duration(s.Deadline)] = shared
		} else {
			shared.Retire() // the request of an older file reports nothing
		}
		return shared
	}
}
