package ruleset

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// Middlewares decides by a file that changes. M is a middleware; all rules with the same settings
// share one.
type Middlewares[M any] struct {
	set    *Set
	client *rratelimiter.Client
	open   Open[M]

	current atomic.Pointer[Version[M]]
	mu      sync.Mutex // guards guard, and changes of current

	guard *guard.Guard // of all middlewares, which a reload keeps; nil before the first use
}

// Open opens a middleware with the settings that change makes of its own, and with headers, which may be
// nil. Its limiters are those of [LimiterOf], and its costs those of [CostOf] if costs is true.
type Open[M any] func(change func(*guard.Settings), costs bool, headers httplimit.Option) M

// NewMiddlewares returns the middlewares for a Set. It panics if the client is nil, with a text that
// names the caller.
func NewMiddlewares[M any](caller string, set *Set, client *rratelimiter.Client, open Open[M]) *Middlewares[M] {
	if client == nil {
		panic(caller + ": the client is nil")
	}
	return &Middlewares[M]{set: set, client: client, open: open}
}

// Version is a version of the file, with the middlewares that requests have needed.
type Version[M any] struct {
	*Middlewares[M]
	opener *opener
	file   *File
	opened sync.Map // settings to M
}

// Now returns the current version.
func (m *Middlewares[M]) Now() *Version[M] {
	if v := m.current.Load(); v != nil && v.file == m.set.File() {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	file := m.set.File()
	if v := m.current.Load(); v == nil || v.file != file {
		m.current.Store(&Version[M]{Middlewares: m, opener: newOpener(m.client), file: file})
	}
	return m.current.Load()
}

// File returns the file.
func (v *Version[M]) File() *File { return v.file }

// Visit returns a request that passes through the limits of all rules that match it, nil if there are
// none. settle settles with one of them. The default logger of slog gets the rules at debug level.
func (v *Version[M]) Visit(r *Request, settle func(ctx context.Context, cost int64) error) *Visit {
	visit := &Visit{acquires: v.file.acquires(v.opener, r), settle: settle}
	if log := slog.Default(); log.Enabled(context.Background(), slog.LevelDebug) {
		var path httptarget.Path // of a call of gRPC, the method has it
		if r.Path != nil {
			path, _ = r.Path(true) // an error is that of the decision
		}
		log.Debug("rules: request", "method", r.Method, "hosts", r.Hosts, "path", path.Text, "rules", visit.rules())
	}
	if len(visit.acquires) == 0 {
		return nil
	}
	return visit
}

// Next returns the middleware that decides the next acquire of a visit, and the context for it.
func (v *Version[M]) Next(ctx context.Context, visit *Visit) (context.Context, M) {
	next := visit.next(ctx)
	return next, v.of(next.settings)
}

// of returns the middleware with some settings. Concurrent requests may each open one; they share
// its state.
func (v *Version[M]) of(s settings) M {
	opened, ok := v.opened.Load(s)
	if !ok {
		opened, _ = v.opened.LoadOrStore(s, v.open(func(to *guard.Settings) {
			s.apply(to)
			if s.refuses {
				return // it does not depend on Redis
			}
			v.file.settings.apply(to)
			to.Guard = v.guardFor(to.Deadline, to.Changed)
		}, s.costs, s.Headers.option()))
	}
	return opened.(M) //nolint:errcheck,forcetypeassert // it has nothing else
}

// guardFor returns the guard of all middlewares.
func (v *Version[M]) guardFor(deadline time.Duration, changed guard.Changed) *guard.Guard {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.guard == nil {
		v.guard = guard.New(deadline, changed)
	} else if v == v.current.Load() { // a request in flight has the file of before
		v.guard.SetDeadline(deadline)
	}
	return v.guard
}
