package ruleset

import (
	"cmp"
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
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
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
		all[len(all)-1].limiter = o.limits(r, l).description.Of(limiter) // described before: most requests have one
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

// visit is a request that passes through its joint acquires, one after another, and its context.
type visit struct {
	context.Context
	acquires []jointAcquire
	admitted []context.Context // of the acquires that admitted it; the next one decides
	served   bool
	settle   func(ctx context.Context, cost int64) error
}

type visitKey struct{}

// Value returns the visit itself for its key.
func (v *visit) Value(key any) any {
	if key == (visitKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// visitOf returns the innermost visit of a context, nil for none.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// LimiterOf returns the limiter by which the next decision of a request is made, or why there is none.
func LimiterOf(ctx context.Context) (guard.Limiter, error) {
	v := visitOf(ctx)
	next := &v.acquires[len(v.admitted)]
	return next.limiter, next.err
}

// CostOf returns the cost of a request in its next decision.
func CostOf(ctx context.Context) int64 {
	v := visitOf(ctx)
	return v.acquires[len(v.admitted)].cost
}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
func Matched(ctx context.Context) []string {
	if v := visitOf(ctx); v != nil {
		return v.rules()
	}
	return nil
}

func (v *visit) rules() (names []string) {
	for i := range v.acquires {
		names = append(names, v.acquires[i].rules...)
	}
	return names
}

// Settle sets the final cost of a request for all rules that admitted it.
func Settle(ctx context.Context, cost int64) error {
	v := visitOf(ctx)
	if v == nil || !v.served {
		return nil
	}
	var failed []error
	for _, admitted := range v.admitted {
		failed = append(failed, v.settle(admitted, cost))
	}
	return errors.Join(failed...)
}

// Set is the rules of a file that may change. The zero Set has no rules. It is safe for concurrent use.
type Set struct {
	current atomic.Pointer[File]
}

var noRules = new(File)

// File returns the current file.
func (s *Set) File() *File {
	if file := s.current.Load(); file != nil {
		return file
	}
	return noRules
}

// Replace puts a file into force.
func (s *Set) Replace(file *File) { s.current.Store(file) }

// Handler handles a request of a protocol, of type R, whose context is ctx.
type Handler[R any] func(ctx context.Context, r R) error

// Middleware handles a request like next, if a limiter grants it: that of [LimiterOf].
type Middleware[R any] func(ctx context.Context, r R, next Handler[R]) error

// Open opens a Middleware with the settings that change makes of its own, and with headers, which may be
// nil. Its costs are those of [CostOf] if costs is true.
type Open[R any] func(change func(*guard.Settings), costs bool, headers httplimit.Option) Middleware[R]

// Middlewares decides by a file that changes. All rules with the same settings share a Middleware.
type Middlewares[R any] struct {
	set    *Set
	client *rratelimiter.Client
	settle func(ctx context.Context, cost int64) error
	open   Open[R]

	current atomic.Pointer[Version[R]]
	mu      sync.Mutex // guards guard, and changes of current

	guard *guard.Guard // of all middlewares, which a reload keeps; nil before the first use
}

// NewMiddlewares returns the middlewares for a Set. settle settles with the innermost one of a context.
// It panics if the client is nil, with a text that names the caller.
func NewMiddlewares[R any](caller string, set *Set, client *rratelimiter.Client,
	settle func(ctx context.Context, cost int64) error, open Open[R]) *Middlewares[R] {
	if client == nil {
		panic(caller + ": the client is nil")
	}
	return &Middlewares[R]{set: set, client: client, settle: settle, open: open}
}

// Version is a version of the file, with the middlewares that requests have needed.
type Version[R any] struct {
	*Middlewares[R]
	File   *File
	opener *opener
	opened sync.Map // settings to Middleware[R]
}

// Now returns the current version.
func (m *Middlewares[R]) Now() *Version[R] {
	if v := m.current.Load(); v != nil && v.File == m.set.File() {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	file := m.set.File()
	if v := m.current.Load(); v == nil || v.File != file {
		m.current.Store(&Version[R]{Middlewares: m, opener: &opener{client: m.client}, File: file})
	}
	return m.current.Load()
}

// Serve passes a request to its handler through the limits of all rules that match what read has read of
// it. The default logger of slog gets the rules at debug level.
func (v *Version[R]) Serve(ctx context.Context, read *Request, r R, handler Handler[R]) error {
	visit := &visit{Context: ctx, acquires: v.File.acquires(v.opener, read), settle: v.settle}
	if log := slog.Default(); log.Enabled(context.Background(), slog.LevelDebug) {
		var path httptarget.Path // of a call of gRPC, the method has it
		if read.Path != nil {
			path, _ = read.Path(true) // an error is that of the decision
		}
		log.Debug("rules: request", "method", read.Method, "hosts", read.Hosts, "path", path.Text, "rules", visit.rules())
	}
	if len(visit.acquires) == 0 {
		return handler(ctx, r)
	}
	return v.decide(visit, r, visit, handler)
}

// decide lets the next acquire of a visit decide, and so on. If one denies, the permits of those before
// it are released.
func (v *Version[R]) decide(ctx context.Context, r R, visit *visit, handler Handler[R]) error {
	decider := v.of(visit.acquires[len(visit.admitted)].settings)
	return decider(ctx, r, func(ctx context.Context, r R) error {
		visit.admitted = append(visit.admitted, ctx)
		if visit.served = len(visit.admitted) == len(visit.acquires); visit.served {
			return handler(ctx, r)
		}
		defer func() {
			if !visit.served {
				_ = visit.settle(ctx, 0) // the limiters of this package support it
			}
		}()
		return v.decide(ctx, r, visit, handler)
	})
}

// of returns the middleware with some settings. Concurrent requests may each open one; they share
// its state.
func (v *Version[R]) of(s settings) Middleware[R] {
	opened, ok := v.opened.Load(s)
	if !ok {
		opened, _ = v.opened.LoadOrStore(s, v.open(func(to *guard.Settings) {
			s.apply(to)
			if s.refuses {
				return // it does not depend on Redis
			}
			v.File.settings.apply(to)
			to.Guard = v.guardFor(to.Deadline, to.Changed)
		}, s.costs, s.Headers.option()))
	}
	return opened.(Middleware[R]) //nolint:errcheck,forcetypeassert // it has nothing else
}

// guardFor returns the guard of all middlewares.
func (v *Version[R]) guardFor(deadline time.Duration, changed guard.Changed) *guard.Guard {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.guard == nil {
		v.guard = guard.New(deadline, changed)
	} else if v == v.current.Load() { // a request in flight has the file of before
		v.guard.SetDeadline(deadline)
	}
	return v.guard
}

// opener opens the limiters of requests for one version of the file.
type opener struct {
	client *rratelimiter.Client
	opened sync.Map // *limits to *openLimits
}

// cluster reports whether Redis is a Redis Cluster.
func (o *opener) cluster() bool {
	c, err := o.client.Inside(inside.Key{})
	return err == nil && c.Engine.Cluster()
}

// emptyKey is the key of an empty rest of a path, in names of limiters. No other key is encoded so.
const emptyKey = "%"

// openLimits opens limiters of the same limits.
type openLimits struct {
	description *guard.Description
	limiter     func(key string) *limit.Limiter // of the policies
	redisson    guard.Joint
}

// limits returns what opens the limiters of a rule. Concurrent requests may each make one.
func (o *opener) limits(r *rule, l *limits) *openLimits {
	if opened, ok := o.opened.Load(l); ok {
		return opened.(*openLimits) //nolint:errcheck,forcetypeassert // it has nothing else
	}
	opened := &openLimits{description: guard.Describe(l.all()...)}
	if r.key == nil {
		all := limit.New(o.client, r.prefix, l.policies...)
		opened.limiter = func(string) *limit.Limiter { return all }
	} else {
		keyed := limit.NewKeyed(o.client, r.prefix, l.policies...)
		opened.limiter = func(key string) *limit.Limiter { return keyed.Limiter(cmp.Or(guard.Key(key), emptyKey)) }
	}
	for _, shared := range l.redisson {
		var opts []rratelimiter.LimiterOption
		if shared.rate != nil { // it may expire, or be lost
			opts = append(opts, rratelimiter.InitialRate(*shared.rate))
		}
		limiter := o.client.Limiter(shared.name, opts...)
		opened.redisson = append(opened.redisson,
			guard.Member{Limiter: limiter, Policies: []limit.Policy{shared.named}, Shared: true})
	}
	o.opened.Store(l, opened)
	return opened
}

// members opens the limiters of a rule for a key.
func (o *opener) members(r *rule, l *limits, key string) guard.Joint {
	opened := o.limits(r, l)
	if len(l.policies) == 0 {
		return opened.redisson
	}
	return append(guard.Joint{{Limiter: opened.limiter(key), Policies: l.policies}}, opened.redisson...)
}
