package ruleset

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// jointAcquire takes permits of some of a request's limits atomically, in one call.
type jointAcquire struct {
	settings settings
	rules    []string
	key      string // of the first rule
	cost     int64
	err      error         // why there is no limiter
	limiter  guard.Limiter // with its description; nil until the members are joined
	members  guard.Joint   // nil if no others can join
}

// acquires returns the joint acquires of a request, nil for none. If routers interpret its path in
// several ways, the rules and keys of each interpretation apply.
func (s *File) acquires(o *opener, r *Request) []jointAcquire {
	rules, path := &s.http, httptarget.Path{Text: r.Method}
	if r.Path == nil {
		rules = &s.grpc
	} else {
		var err error
		if path, err = r.Path(s.allowSlashes); err != nil && s.usesPaths {
			return refused(err)
		}
		if r.noHost != nil && s.usesHosts {
			return refused(r.noHost)
		}
	}
	readings := [][]string{segmentsOf(path.Text)}
	for _, other := range path.Others {
		readings = append(readings, segmentsOf(other))
	}
	var all []jointAcquire
	for _, segments := range readings {
		for _, m := range rules.find(r, segments, s.all) {
			if chosen := s.rules[m.rule]; !chosen.skip.skips(r, readings) {
				all = chosen.appendAcquires(all, o, r, segments, m)
			}
		}
	}
	return joinAdjacent(all, o)
}

// refused refuses a request that the file cannot read.
func refused(err error) []jointAcquire {
	return []jointAcquire{{settings: refusing(settings{}), cost: 1, err: err}}
}

// appendAcquires adds the joint acquires of a rule: one, if its limiters share a slot. A rule has
// them once for each key.
func (r *rule) appendAcquires(all []jointAcquire, o *opener, request *Request, segments []string,
	m match) []jointAcquire {
	a := jointAcquire{settings: r.settings, rules: []string{r.name}, cost: 1, err: m.unknown}
	if a.err != nil {
		return append(all, a)
	}
	a.cost, a.err = r.cost.of(request)
	chosen := []*limits{r.limits}
	if r.key != nil && (!r.limits.ban || len(r.overrides) > 0) {
		key, exact, err := keyOf(r.key, request, segments, m.condition)
		if err != nil && !r.limits.ban {
			a.err = err
			return append(all, a)
		}
		a.key, chosen = key, r.limitsOf(key, exact)
	}
	if slices.ContainsFunc(all, func(other jointAcquire) bool { return other.of(r, a.key) }) {
		return all
	}
	for _, l := range chosen {
		all = r.appendLimits(all, o, a, l)
	}
	return all
}

// limitsOf returns the limits of a key. A key that was sent in another spelling has the limits of
// the rule too, so that no spelling gets more than it.
func (r *rule) limitsOf(key string, exact bool) []*limits {
	own := r.overrides[key]
	switch {
	case own == nil || own.pass && !exact:
		return []*limits{r.limits}
	case exact || own.ban || r.limits.ban:
		return []*limits{own}
	}
	return []*limits{own, r.limits}
}

// appendLimits adds the joint acquires of limits of a rule.
func (r *rule) appendLimits(all []jointAcquire, o *opener, a jointAcquire, l *limits) []jointAcquire {
	switch {
	case l.pass:
		return all
	case l.ban:
		a.settings = refusing(r.settings)
		a.limiter = o.limits(r, l).description.Of(banned(r.prefix))
		a.cost, a.err = 1, nil
		return append([]jointAcquire{a}, all...) // before any permits are taken
	case a.err != nil:
		return append(all, a)
	}
	members := o.members(r, l, a.key)
	for i, m := range members {
		a.members = guard.Joint{m}
		if i == 0 {
			all = append(all, a)
		} else if a.rules = nil; !all[len(all)-1].join(&a, o.cluster()) { // only the first one has the names
			all = append(all, a)
		}
	}
	if len(members) == 1 {
		limiter, _ := a.members.Limiter()
		all[len(all)-1].limiter = o.limits(r, l).description.Of(limiter) // described before, as most requests have one limiter
	}
	return all
}

// of reports whether an acquire belongs to a rule and a key.
func (a *jointAcquire) of(r *rule, key string) bool {
	return len(a.rules) > 0 && a.rules[0] == r.name && a.key == key && a.err == nil
}

type banned string

func (banned) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, nil
}

func (b banned) Name() string { return string(b) }

// joinAdjacent joins adjacent acquires where one call can decide both.
func joinAdjacent(all []jointAcquire, o *opener) []jointAcquire {
	var joined []jointAcquire
	for i := range all {
		if i == 0 || !joined[len(joined)-1].join(&all[i], o.cluster()) {
			joined = append(joined, all[i])
		}
	}
	for i := range joined {
		if a := &joined[i]; a.limiter == nil && a.err == nil {
			limiter, policies := a.members.Limiter()
			a.limiter = guard.Describe(policies...).Of(limiter)
		}
	}
	return joined
}

// join adds the limiters of another acquire to this one if one call can decide both. It reports
// whether it did. A Redisson limiter of both is taken from once.
func (a *jointAcquire) join(other *jointAcquire, cluster bool) bool {
	if a.members == nil || other.members == nil || a.settings != other.settings || a.cost != other.cost {
		return false
	}
	members := a.members
	for _, m := range other.members {
		var ok bool
		if members, ok = members.With(m, cluster); !ok {
			return false
		}
	}
	a.members, a.limiter = members, nil
	for _, name := range other.rules {
		if !slices.Contains(a.rules, name) {
			a.rules = append(slices.Clip(a.rules), name)
		}
	}
	return true
}

// Visit is a request that passes through its joint acquires, one after another.
type Visit struct {
	acquires []jointAcquire
	admitted []context.Context // of the acquires that admitted it
	served   bool
	settle   func(ctx context.Context, cost int64) error
}

type acquireContext struct {
	context.Context
	visit *Visit
	*jointAcquire
}

type acquireKey struct{}

func (c *acquireContext) Value(key any) any {
	if key == (acquireKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// acquireOf returns the innermost joint acquire of a context, nil for none.
func acquireOf(ctx context.Context) *acquireContext {
	c, _ := ctx.Value(acquireKey{}).(*acquireContext)
	return c
}

// LimiterOf returns the limiter of the acquire of a context, or why there is none.
func LimiterOf(ctx context.Context) (guard.Limiter, error) {
	c := acquireOf(ctx)
	return c.limiter, c.err
}

// CostOf returns the cost of the acquire of a context.
func CostOf(ctx context.Context) int64 { return acquireOf(ctx).cost }

func (v *Visit) next(ctx context.Context) *acquireContext {
	return &acquireContext{ctx, v, &v.acquires[len(v.admitted)]}
}

// Admit records that an acquire admitted the request. It reports whether it was the last one.
func (v *Visit) Admit(ctx context.Context) bool {
	v.admitted = append(v.admitted, ctx)
	v.served = len(v.admitted) == len(v.acquires)
	return v.served
}

// Release releases the permits of an acquire if a later one has denied the request.
func (v *Visit) Release(ctx context.Context) {
	if !v.served {
		_ = v.settle(ctx, 0) // the limiters of this package support it
	}
}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
func Matched(ctx context.Context) []string {
	if c := acquireOf(ctx); c != nil {
		return c.visit.rules()
	}
	return nil
}

func (v *Visit) rules() (names []string) {
	for i := range v.acquires {
		names = append(names, v.acquires[i].rules...)
	}
	return names
}

// Settle sets the final cost of a request for all rules that admitted it.
func Settle(ctx context.Context, cost int64) error {
	c := acquireOf(ctx)
	if c == nil || !c.visit.served {
		return nil
	}
	var failed []error
	for _, admitted := range c.visit.admitted {
		failed = append(failed, c.visit.settle(admitted, cost))
	}
	return errors.Join(failed...)
}

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
