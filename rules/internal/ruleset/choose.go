package ruleset

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Set is the rules of a file that may change. The zero Set has no rules. It is safe for concurrent use.
type Set struct {
	current atomic.Pointer[File]

	mu       sync.Mutex
	compiles []func(*File) // of each middleware: it compiles a file, and puts it into force
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
func (s *Set) Replace(file *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(file)
	for _, compile := range s.compiles {
		compile(file)
	}
}

// follow compiles the current file, and each that replaces it.
func (s *Set) follow(compile func(*File)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compiles = append(s.compiles, compile)
	compile(s.File())
}

// ByFile returns the option of a middleware that decides by the rules of a set. read reads what a file needs of a
// request. It panics if the client is nil, with a text that names the caller.
func ByFile[R gate.Request[R]](caller string, set *Set, client *rratelimiter.Client,
	read func(*File, R) *Request) gate.Change[R] {
	if client == nil {
		panic(caller + ": the client is nil")
	}
	return func(to *gate.Options[R]) {
		to.Guard = outage.New(to.Deadline, to.Changed) // a reload keeps it
		c, options, guard := &chooser[R]{read: read}, to.Settings, to.Guard
		set.follow(func(file *File) {
			f := compile(file, client, options)
			guard.SetDeadline(f.deadline)
			c.current.Store(f)
		})
		to.Chooser, to.FromFile = c, true
	}
}

// chooser chooses by a file that changes what limits the requests of one middleware.
type chooser[R gate.Request[R]] struct {
	read    func(*File, R) *Request
	current atomic.Pointer[compiledFile]
}

type matchedKey struct{}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
func Matched(ctx context.Context) []string {
	names, _ := ctx.Value(matchedKey{}).([]string)
	return names
}

// Choose returns the visits of a request in order, and the request in a context with the names of the rules. The
// default logger of slog gets the rules at debug level.
func (c *chooser[R]) Choose(r R) (R, []gate.Visit[R]) {
	f := c.current.Load()
	request := c.read(f.file, r)
	choices := f.choicesOf(request)
	visits, rules := make([]gate.Visit[R], len(choices)), []string(nil)
	for i, one := range choices {
		visits[i].Choice = one.Choice
		rules = append(rules, one.rules...)
	}
	if log := slog.Default(); log.Enabled(context.Background(), slog.LevelDebug) {
		path := "" // of a call of gRPC, the method has it
		if request.path != nil {
			path = request.path.Text
		}
		log.Debug("rules: request", "method", request.Method, "hosts", request.Hosts, "path", path, "rules", rules)
	}
	if len(choices) > 0 {
		r = r.WithContext(context.WithValue(r.Context(), matchedKey{}, rules))
	}
	return r, visits
}

// compiledFile is a file compiled for one middleware: each rule with its settings and its limiters. After a reload,
// requests under way keep theirs.
type compiledFile struct {
	file     *File
	client   *rratelimiter.Client
	rules    []compiledRule // in the order of the file
	refusal  *gate.Settings // of requests that the file cannot read
	deadline time.Duration
}

type compiledRule struct {
	*rule
	names     []string       // its own
	settings  *gate.Settings // equal ones are one
	limiters  *limiters
	overrides map[string]*limiters // by key
}

// compile compiles a file for a middleware with a client and settings.
func compile(file *File, client *rratelimiter.Client, options gate.Settings) *compiledFile {
	f := &compiledFile{file: file, client: client, rules: make([]compiledRule, len(file.rules))}
	all := make(map[settings]*gate.Settings)
	settingsOf := func(s settings) *gate.Settings {
		if all[s] == nil {
			changed := options
			s.apply(&changed)
			if !s.refuses { // a refusal does not depend on Redis
				file.settings.apply(&changed)
			}
			all[s] = &changed
		}
		return all[s]
	}
	f.refusal, f.deadline = settingsOf(refusing(settings{})), settingsOf(settings{}).Deadline
	for i, r := range file.rules {
		own, ofBans := settingsOf(r.settings), settingsOf(refusing(r.settings))
		openFor := func(l *limits) *limiters {
			if l.ban {
				return openLimiters(client, r, l, ofBans)
			}
			return openLimiters(client, r, l, own)
		}
		c := compiledRule{r, []string{r.name}, own, openFor(r.limits), make(map[string]*limiters, len(r.overrides))}
		for key, l := range r.overrides {
			c.overrides[key] = openFor(l)
		}
		f.rules[i] = c
	}
	return f
}

// limiters are the limiters of the same limits.
type limiters struct {
	*limits
	settings        *gate.Settings
	description     *gate.Description
	shared          *limit.Limiter // of the policies, without a key
	keyed           *limit.Keyed   // of the policies
	redissonMembers gate.Joint     // of Redisson's layout
}

// openLimiters opens the limiters of a rule.
func openLimiters(client *rratelimiter.Client, r *rule, l *limits, s *gate.Settings) *limiters {
	o := &limiters{limits: l, settings: s, description: gate.Describe(l.allPolicies()...)}
	switch {
	case l.ban || len(l.policies) == 0:
	case r.key == nil:
		o.shared = limit.New(client, r.prefix, l.policies...)
	default:
		o.keyed = limit.NewKeyed(client, r.prefix, l.policies...)
	}
	for _, stated := range l.redisson {
		var opts []rratelimiter.LimiterOption
		if stated.rate != nil { // it may expire, or be lost
			opts = append(opts, rratelimiter.InitialRate(*stated.rate))
		}
		o.redissonMembers = append(o.redissonMembers, gate.Member{Limiter: client.Limiter(stated.name, opts...),
			Policies: []limit.Policy{stated.named}, Once: true})
	}
	return o
}

// emptyKey is the key of an empty rest of a path, in names of limiters. No other key is encoded so.
const emptyKey = "%"

// members returns the limiters of a key.
func (o *limiters) members(key string) gate.Joint {
	m := gate.Member{Limiter: o.shared, Policies: o.policies}
	switch {
	case len(o.policies) == 0:
		return o.redissonMembers
	case o.keyed != nil:
		m.Limiter = o.keyed.Limiter(cmp.Or(identity.EncodeKey(key), emptyKey))
	}
	return append(gate.Joint{m}, o.redissonMembers...)
}

// choice is some of a request's limits, whose permits one call takes, all or none.
type choice struct {
	gate.Choice // joinAdjacent sets the Limiter and the Description of a joint one

	rules   []string   // the names of the rules of which this choice is the first
	key     string     // of the first rule
	members gate.Joint // nil if no others can join
}

// choicesOf returns what limits a request, none if nothing does. If routers interpret its path in several ways, the rules
// and keys of each interpretation apply.
func (f *compiledFile) choicesOf(r *Request) []choice {
	file := f.file
	rules, path := &file.grpc, &httptarget.Path{Text: r.Method}
	if r.path != nil {
		if r.unreadable != nil {
			return []choice{{Choice: gate.Choice{Settings: f.refusal, Err: r.unreadable}}}
		}
		rules, path = &file.http, r.path
	}
	readings := [][]string{segmentsOf(path.Text)}
	for _, other := range path.Others {
		readings = append(readings, segmentsOf(other))
	}
	var all []choice
	for _, segments := range readings {
		for _, m := range rules.find(r, segments, file.all) {
			if chosen := &f.rules[m.rule]; chosen.skip == nil || !chosen.skip.skips(r, readings) {
				all = f.appendRule(all, chosen, r, segments, m)
			}
		}
	}
	if len(all) == 1 && all[0].Limiter != nil { // as for most requests
		return all
	}
	return f.joinAdjacent(all)
}

// appendRule adds the choices of a rule: one, if its limiters share a slot. A rule has them once for each key.
func (f *compiledFile) appendRule(all []choice, r *compiledRule, request *Request, segments []string,
	m match) []choice {
	c := choice{Choice: gate.Choice{Settings: r.settings}, rules: r.names}
	if c.Err = m.unknown; c.Err != nil {
		return append(all, c)
	}
	if r.cost != (cost{}) {
		c.Permits, c.Err = r.cost.permitsOf(request)
	}
	chosen := []*limiters{r.limiters}
	if r.key != nil && (!r.limits.ban || len(r.overrides) > 0) {
		key, exact, err := keyOf(r.key, request, segments, m.condition)
		if err != nil && !r.limits.ban {
			c.Permits, c.Err = 0, err
			return append(all, c)
		}
		if c.key = key; len(r.overrides) > 0 {
			chosen = r.limitersOf(key, exact)
		}
	}
	if slices.ContainsFunc(all, func(other choice) bool { return other.isOf(r.rule, c.key) }) {
		return all
	}
	for _, l := range chosen {
		all = f.appendLimiters(all, r, c, l)
	}
	return all
}

// limitersOf returns the limiters of a key. A key that was sent in another spelling has those of the rule too, so that
// no spelling gets more than it.
func (r *compiledRule) limitersOf(key string, exact bool) []*limiters {
	own := r.overrides[key]
	switch {
	case own == nil || own.pass && !exact:
		return []*limiters{r.limiters}
	case exact || own.ban || r.limits.ban:
		return []*limiters{own}
	}
	return []*limiters{own, r.limiters}
}

// appendLimiters adds the choices of limiters of a rule.
func (f *compiledFile) appendLimiters(all []choice, r *compiledRule, c choice, l *limiters) []choice {
	if l.pass {
		return all
	}
	if c.Settings = l.settings; l.ban {
		c.Ban, c.Description, c.Permits, c.Err = r.prefix, l.description, 1, nil
		return append([]choice{c}, all...) // before any permits are taken
	}
	if c.Err != nil {
		return append(all, c)
	}
	members := l.members(c.key)
	for i, m := range members {
		c.members = gate.Joint{m}
		if i == 0 {
			all = append(all, c)
		} else if c.rules = nil; !all[len(all)-1].join(&c, f.cluster()) { // only the first one has the names
			all = append(all, c)
		}
	}
	if len(members) == 1 { // described before: most requests have one
		last := &all[len(all)-1]
		last.Limiter, last.Description = members[0].Limiter, l.description
	}
	return all
}

// isOf reports whether a choice is of a rule and a key.
func (c *choice) isOf(r *rule, key string) bool {
	return len(c.rules) > 0 && c.rules[0] == r.name && c.key == key && c.Err == nil
}

// joinAdjacent joins adjacent choices where one call can decide both.
func (f *compiledFile) joinAdjacent(all []choice) []choice {
	var joined []choice
	for i := range all {
		if i == 0 || !joined[len(joined)-1].join(&all[i], f.cluster()) {
			joined = append(joined, all[i])
		}
	}
	for i := range joined {
		if c := &joined[i]; c.Limiter == nil && c.Ban == "" && c.Err == nil {
			limiter, policies := c.members.Limiter()
			c.Limiter, c.Description = limiter, gate.Describe(policies...)
		}
	}
	return joined
}

// join adds the limiters of another choice to this one if one call can decide both. It reports whether it did. A Redisson
// limiter of both is taken from once.
func (c *choice) join(other *choice, cluster bool) bool {
	if c.members == nil || other.members == nil || c.Settings != other.Settings || c.Permits != other.Permits {
		return false
	}
	members := c.members
	for _, m := range other.members {
		var ok bool
		if members, ok = members.With(m, cluster); !ok {
			return false
		}
	}
	c.members, c.Limiter = members, nil
	for _, name := range other.rules {
		if !slices.Contains(c.rules, name) {
			c.rules = append(slices.Clip(c.rules), name)
		}
	}
	return true
}

// cluster reports whether Redis is a Redis Cluster.
func (f *compiledFile) cluster() bool {
	c, ok := inside.Of[inside.Client](f.client)
	return ok && c.Engine.Cluster()
}
