package ruleset

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/gate"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/identity"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

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

// door is what decides the requests of one middleware by a file that changes.
type door struct {
	set      *Set
	client   *rratelimiter.Client
	read     Read
	settings gate.Settings // of the middleware's options

	current atomic.Pointer[version]
	mu      sync.Mutex // guards changes of current
}

// Read reads what a file needs of a request of a protocol: of a *http.Request, or a grpclimit.Call.
type Read func(ctx context.Context, file *File, request any) *Request

// ByFile returns the option of a middleware that decides by the rules of a set. It panics if the client is
// nil, with a text that names the caller.
func ByFile(caller string, set *Set, client *rratelimiter.Client, read Read) gate.SettingsOption {
	if client == nil {
		panic(caller + ": the client is nil")
	}
	return func(to *gate.Settings) {
		to.Guard = outage.New(to.Deadline, to.Changed) // a reload keeps it
		d := &door{set: set, client: client, read: read, settings: *to}
		to.Choices = d.choices
	}
}

// version is a version of the file, and what its requests have needed. A door keeps it until its first request
// after a reload; the requests under way keep only their limiters and settings.
type version struct {
	file    *File
	client  *rratelimiter.Client
	options gate.Settings // of the middleware
	opened  sync.Map      // *limits to *opened

	mu       sync.Mutex
	settings map[settings]*gate.Settings // guarded by mu: of rules with equal settings
}

func newVersion(file *File, client *rratelimiter.Client, options gate.Settings) *version {
	return &version{file: file, client: client, options: options, settings: make(map[settings]*gate.Settings)}
}

// now returns the current version.
func (d *door) now() *version {
	file := d.set.File()
	if v := d.current.Load(); v != nil && v.file == file {
		return v
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	file = d.set.File()
	if v := d.current.Load(); v == nil || v.file != file {
		v = newVersion(file, d.client, d.settings)
		d.settings.Guard.SetDeadline(v.settingsOf(settings{}).Deadline)
		d.current.Store(v)
	}
	return d.current.Load()
}

type matchedKey struct{}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
func Matched(ctx context.Context) []string {
	names, _ := ctx.Value(matchedKey{}).([]string)
	return names
}

// choices returns what decides a request, in order, and its context with the names of the rules. The default
// logger of slog gets the rules at debug level.
func (d *door) choices(ctx context.Context, request any) (context.Context, []gate.Choice) {
	v := d.now()
	r := d.read(ctx, v.file, request)
	acquires := v.acquires(r)
	choices, rules := make([]gate.Choice, len(acquires)), []string(nil)
	for i := range acquires {
		choices[i] = acquires[i].Choice
		rules = append(rules, acquires[i].rules...)
	}
	if log := slog.Default(); log.Enabled(context.Background(), slog.LevelDebug) {
		var path httptarget.Path // of a call of gRPC, the method has it
		if r.Path != nil {
			path, _ = r.Path(true) // an error is that of the decision
		}
		log.Debug("rules: request", "method", r.Method, "hosts", r.Hosts, "path", path.Text, "rules", rules)
	}
	if len(choices) == 0 {
		return ctx, nil
	}
	return context.WithValue(ctx, matchedKey{}, rules), choices
}

// acquire takes permits of some of a request's limits atomically, in one call.
type acquire struct {
	gate.Choice
	rules   []string
	key     string     // of the first rule
	members gate.Joint // nil if no others can join
}

// acquires returns what takes the permits of a request, nil for nothing. If routers interpret its path in
// several ways, the rules and keys of each interpretation apply.
func (v *version) acquires(r *Request) []acquire {
	file := v.file
	rules, path := &file.http, httptarget.Path{Text: r.Method}
	if r.Path == nil {
		rules = &file.grpc
	} else {
		if r.invalid != nil && (file.usesPaths || file.usesQueries) {
			return v.refused(r.invalid)
		}
		var err error
		if path, err = r.Path(file.allowSlashes); err != nil && file.usesPaths {
			return v.refused(err)
		}
		if r.noHost != nil && file.usesHosts {
			return v.refused(r.noHost)
		}
	}
	readings := [][]string{segmentsOf(path.Text)}
	for _, other := range path.Others {
		readings = append(readings, segmentsOf(other))
	}
	var all []acquire
	for _, segments := range readings {
		for _, m := range rules.find(r, segments, file.all) {
			if chosen := file.rules[m.rule]; !chosen.skip.skips(r, readings) {
				all = v.appendRule(all, chosen, r, segments, m)
			}
		}
	}
	if len(all) == 1 && all[0].Limiter != nil { // as for most requests
		return all
	}
	return v.joinAdjacent(all)
}

// refused refuses a request that the file cannot read.
func (v *version) refused(err error) []acquire {
	return []acquire{{Choice: gate.Choice{Settings: v.settingsOf(refusing(settings{})), Err: err}}}
}

// appendRule adds the acquires of a rule: one, if its limiters share a slot. A rule has them once for each
// key.
func (v *version) appendRule(all []acquire, r *rule, request *Request, segments []string, m match) []acquire {
	a := acquire{rules: []string{r.name}}
	if m.unknown != nil {
		a.Choice = gate.Choice{Settings: v.settingsOf(r.settings), Err: m.unknown}
		return append(all, a)
	}
	if r.settings.costs {
		a.Cost, a.Err = r.cost.of(request)
	}
	chosen := []*limits{r.limits}
	if r.key != nil && (!r.limits.ban || len(r.overrides) > 0) {
		key, exact, err := keyOf(r.key, request, segments, m.condition)
		if err != nil && !r.limits.ban {
			a.Choice = gate.Choice{Settings: v.settingsOf(r.settings), Err: err}
			return append(all, a)
		}
		a.key, chosen = key, r.limitsOf(key, exact)
	}
	if slices.ContainsFunc(all, func(other acquire) bool { return other.of(r, a.key) }) {
		return all
	}
	for _, l := range chosen {
		all = v.appendLimits(all, r, a, l)
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

// appendLimits adds the acquires of limits of a rule.
func (v *version) appendLimits(all []acquire, r *rule, a acquire, l *limits) []acquire {
	if l.pass {
		return all
	}
	o := v.open(r, l)
	if l.ban {
		a.Choice = gate.Choice{Settings: o.settings, Limiter: banned(r.prefix), Description: o.description, Banned: true,
			Cost: 1}
		return append([]acquire{a}, all...) // before any permits are taken
	}
	if a.Settings = o.settings; a.Err != nil {
		return append(all, a)
	}
	members := o.members(a.key)
	for i, m := range members {
		a.members = gate.Joint{m}
		if i == 0 {
			all = append(all, a)
		} else if a.rules = nil; !all[len(all)-1].join(&a, v.cluster()) { // only the first one has the names
			all = append(all, a)
		}
	}
	if len(members) == 1 { // described before: most requests have one
		last := &all[len(all)-1]
		last.Limiter, last.Description = members[0].Limiter, o.description
	}
	return all
}

// of reports whether an acquire belongs to a rule and a key.
func (a *acquire) of(r *rule, key string) bool {
	return len(a.rules) > 0 && a.rules[0] == r.name && a.key == key && a.Err == nil
}

// banned is the limiter of a ban, which is not called.
type banned string

func (banned) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, nil
}

func (b banned) Name() string { return string(b) }

// joinAdjacent joins adjacent acquires where one call can decide both.
func (v *version) joinAdjacent(all []acquire) []acquire {
	var joined []acquire
	for i := range all {
		if i == 0 || !joined[len(joined)-1].join(&all[i], v.cluster()) {
			joined = append(joined, all[i])
		}
	}
	for i := range joined {
		if a := &joined[i]; a.Limiter == nil && a.Err == nil {
			limiter, policies := a.members.Limiter()
			a.Limiter, a.Description = limiter, gate.Describe(policies...)
		}
	}
	return joined
}

// join adds the limiters of another acquire to this one if one call can decide both. It reports
// whether it did. A Redisson limiter of both is taken from once.
func (a *acquire) join(other *acquire, cluster bool) bool {
	if a.members == nil || other.members == nil || a.Settings != other.Settings || a.Cost != other.Cost {
		return false
	}
	members := a.members
	for _, m := range other.members {
		var ok bool
		if members, ok = members.With(m, cluster); !ok {
			return false
		}
	}
	a.members, a.Limiter = members, nil
	for _, name := range other.rules {
		if !slices.Contains(a.rules, name) {
			a.rules = append(slices.Clip(a.rules), name)
		}
	}
	return true
}

// cluster reports whether Redis is a Redis Cluster.
func (v *version) cluster() bool {
	c, err := v.client.Inside(inside.Key{})
	return err == nil && c.Engine.Cluster()
}

// settingsOf returns the settings of the middleware with those of the file and a rule.
func (v *version) settingsOf(s settings) *gate.Settings {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, ok := v.settings[s]
	if !ok {
		changed := v.options
		s.apply(&changed)
		if !s.refuses { // a refusal does not depend on Redis
			v.file.settings.apply(&changed)
		}
		all = &changed
		v.settings[s] = all
	}
	return all
}

// opened opens the limiters of the same limits.
type opened struct {
	settings    *gate.Settings
	description *gate.Description
	policies    []limit.Policy
	limiter     func(key string) *limit.Limiter // of the policies
	redisson    gate.Joint
}

// emptyKey is the key of an empty rest of a path, in names of limiters. No other key is encoded so.
const emptyKey = "%"

// open returns what opens the limiters of a rule. Concurrent requests may each make one.
func (v *version) open(r *rule, l *limits) *opened {
	if o, ok := v.opened.Load(l); ok {
		return o.(*opened) //nolint:errcheck,forcetypeassert // it has nothing else
	}
	s := r.settings
	if l.ban {
		s = refusing(s)
	}
	o := &opened{settings: v.settingsOf(s), description: gate.Describe(l.all()...), policies: l.policies}
	if r.key == nil {
		all := limit.New(v.client, r.prefix, l.policies...)
		o.limiter = func(string) *limit.Limiter { return all }
	} else {
		keyed := limit.NewKeyed(v.client, r.prefix, l.policies...)
		o.limiter = func(key string) *limit.Limiter { return keyed.Limiter(cmp.Or(identity.Key(key), emptyKey)) }
	}
	for _, shared := range l.redisson {
		var opts []rratelimiter.LimiterOption
		if shared.rate != nil { // it may expire, or be lost
			opts = append(opts, rratelimiter.InitialRate(*shared.rate))
		}
		limiter := v.client.Limiter(shared.name, opts...)
		o.redisson = append(o.redisson,
			gate.Member{Limiter: limiter, Policies: []limit.Policy{shared.named}, Shared: true})
	}
	v.opened.Store(l, o)
	return o
}

// members opens the limiters of a key.
func (o *opened) members(key string) gate.Joint {
	if len(o.policies) == 0 {
		return o.redisson
	}
	return append(gate.Joint{{Limiter: o.limiter(key), Policies: o.policies}}, o.redisson...)
}
