package inspect

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Found is the result of a search, by name.
type Found struct {
	Redisson []*Redisson
	Policies []*Policy
	Orphans  []*Pair   // pairs that no limiter uses; Returns and counts are not set
	More     int64     // keys of limiters beyond Search.Most
	Newer    int64     // keys that look like policies of a version that this one does not know
	Missing  []Missing // servers whose limiters were not read
}

// Missing is a server of a cluster that does not answer, beside others that do.
type Missing struct {
	Node string
	Err  error
}

// PartError is the error of servers of a cluster that do not answer, beside a result of the others.
type PartError struct{ Err error }

func (e *PartError) Error() string { return e.Err.Error() }

func (e *PartError) Unwrap() error { return e.Err }

// Search describes a search.
type Search struct {
	Pattern  string                         // of names; "" for all
	Most     int                            // limiters, clients and orphans to read; the rest is counted; 0 for all
	Pages    int                            // of grants to read per limiter, at most
	Given    []names.Given                  // for Of: the known policies of the limiter
	All      bool                           // for Of: search for left-over state of other types and policies
	Progress func(node string, keys uint64) // called at times with the approximate number of scanned keys; may be nil
}

// search collects what a walk over keys finds. A Reader reads it.
type search struct {
	Search
	name     string // of a single limiter
	prefix   string // of its keys, if it is a Redisson limiter
	redisson map[string]*Redisson
	clients  int                // of all limiters
	policies map[string]*Policy // by key
	orphans  map[string]*Pair   // by the key of the value
	unknown  map[string]bool    // keys that may be those of unknown policies
	more     int64
	walked   uint64 // scanned keys, approximate
}

func newSearch(s Search) *search {
	if s.Most <= 0 {
		s.Most = math.MaxInt
	}
	return &search{
		Search: s, redisson: map[string]*Redisson{}, policies: map[string]*Policy{}, orphans: map[string]*Pair{},
		unknown: map[string]bool{},
	}
}

// Find searches all servers with keys and reads the limiters.
func (r *Reader) Find(ctx context.Context, s Search) (*Found, error) {
	w := newSearch(s)
	nodes, err := r.Redis.Masters(ctx)
	if err != nil {
		return nil, err
	}
	// Configurations first, since they determine the owners of pairs.
	nodes, missing, err := eachNode(nodes, func(n connect.Node) error { return r.walkHashes(ctx, w, n) })
	if err != nil {
		return nil, err
	}
	nodes, more, err := eachNode(nodes, func(n connect.Node) error { return w.walkState(ctx, n, pairPattern) })
	if err != nil {
		return nil, err
	}
	if missing = append(missing, more...); len(missing) > 0 {
		w.keep(func(key string) bool {
			return slices.ContainsFunc(nodes, func(n connect.Node) bool { return n.Has(key) })
		})
	}
	found, err := r.readFound(ctx, w)
	if err != nil {
		return nil, err
	}
	found.Missing = missing
	return found, nil
}

// eachNode walks over nodes. It returns those that answer, and the others as long as one answers.
func eachNode(nodes []connect.Node, walk func(connect.Node) error) (left []connect.Node, missing []Missing, err error) {
	for _, node := range nodes {
		switch failed := walk(node); {
		case failed == nil:
			left = append(left, node)
		case !connect.IsUnreached(failed):
			return nil, nil, failed
		default:
			missing = append(missing, Missing{node.Where, failed})
			err = cmp.Or(err, failed)
		}
	}
	if len(left) > 0 {
		err = nil
	}
	return left, missing, err
}

// keep removes all whose keys can be of servers that do not answer.
func (w *search) keep(reached func(key string) bool) {
	whole := func(name string) bool {
		value, permits := names.Pair(name, "")
		return reached(name) && reached(value) && reached(permits)
	}
	maps.DeleteFunc(w.redisson, func(name string, _ *Redisson) bool { return !whole(name) })
	maps.DeleteFunc(w.policies, func(key string, _ *Policy) bool { return !reached(key) })
	maps.DeleteFunc(w.unknown, func(key string, _ bool) bool { return !reached(key) })
	maps.DeleteFunc(w.orphans, func(key string, _ *Pair) bool {
		parsed, _ := names.Parse(key)
		return !reached(key) || slices.ContainsFunc(parsed.Names(), func(name string) bool { return !whole(name) })
	})
}

// Of reads one limiter. It reads the configuration, the pair of an OVERALL limiter and known policies by
// name. It finds clients, unknown policies and left-over state by SCAN.
func (r *Reader) Of(ctx context.Context, name string, s Search) (*Found, error) {
	w := newSearch(s)
	w.Pattern, w.name = "", name
	value, _ := names.Pair(name, "")
	w.prefix = strings.TrimSuffix(value, ":value")
	for _, sibling := range (names.Key{Prefix: w.prefix}).Names() {
		hashes, err := r.hashes(ctx, []string{sibling}, sibling == name)
		if err != nil {
			return nil, err
		}
		if hashes[0] != nil {
			w.redisson[sibling] = hashes[0]
		}
	}
	for _, given := range s.Given {
		key := given.Stored.KeyOf(name)
		w.policies[key] = &Policy{Name: name, Stored: given.Stored, Key: key}
	}
	l := w.redisson[name]
	overall := l != nil && l.Valid() && l.Config.Type == rratelimiter.Overall
	if s.All || !overall && (l != nil || len(s.Given) == 0) {
		node, err := r.Redis.Home(ctx, value)
		if err != nil {
			return nil, err
		}
		if err := w.walkState(ctx, node, names.Pattern(name)); err != nil {
			return nil, err
		}
	}
	found, err := r.readFound(ctx, w)
	if err != nil {
		return nil, err
	}
	found.Redisson = slices.DeleteFunc(found.Redisson, func(l *Redisson) bool { return l.Name != name })
	return found, nil
}

// readFound reads what a search has found.
func (r *Reader) readFound(ctx context.Context, w *search) (*Found, error) {
	f := &Found{More: w.more}
	f.Redisson = slices.SortedFunc(maps.Values(w.redisson), func(a, b *Redisson) int {
		return cmp.Compare(a.Name, b.Name)
	})
	f.Policies = slices.SortedFunc(maps.Values(w.policies), func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	f.Orphans = slices.SortedFunc(maps.Values(w.orphans), func(a, b *Pair) int {
		return cmp.Compare(a.ValueKey, b.ValueKey)
	})
	if err := r.read(ctx, f.Redisson, w.Pages); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(f.Policies, pipeline/2) {
		if err := r.policies(ctx, part); err != nil {
			return nil, err
		}
	}
	var err error
	f.Newer, err = r.newer(ctx, w.unknown)
	return f, err
}

// newer counts the keys of unknown policies: their content begins with the epoch of a state.
func (r *Reader) newer(ctx context.Context, unknown map[string]bool) (n int64, err error) {
	var commands rueidis.Commands
	for key := range unknown {
		commands = append(commands, r.value(key), r.Redis.B().Lindex().Key(key).Index(-1).Build())
	}
	replies, err := r.ask(ctx, commands)
	for _, reply := range replies {
		if text, failed := reply.ToString(); failed == nil && ofState.MatchString(text) {
			n++
		}
	}
	return n, err
}

// ofState matches the beginning of a policy's state: an epoch and a number.
var ofState = regexp.MustCompile(`^[0-9a-z]{6} -?[0-9]`)

// Refresh rereads a limiter found by Of, with the clients and policies of that time.
func (r *Reader) Refresh(ctx context.Context, name string, found *Found, pages int) error {
	clients := make(map[string]bool)
	for _, l := range found.Redisson {
		for _, p := range l.Pairs {
			if p.Client != "" { // the common pair does not count if the limiter is PER_CLIENT now
				clients[p.Client] = true
			}
		}
	}
	hashes, err := r.hashes(ctx, []string{name}, true)
	if err != nil {
		return err
	}
	found.Redisson = nil
	if hashes[0] != nil {
		hashes[0].clients, found.Redisson = clients, hashes
	}
	if err := r.read(ctx, found.Redisson, pages); err != nil {
		return err
	}
	for i, p := range found.Policies {
		found.Policies[i] = &Policy{Name: p.Name, Stored: p.Stored}
	}
	return r.policies(ctx, found.Policies)
}

// Between counts the permits of grants dated after a time and up to another, in Unix milliseconds.
func (r *Reader) Between(ctx context.Context, p *Pair, after, until int64, pages int) (permits int64, err error) {
	var ranks [2]int64
	for i, at := range []int64{after, until} {
		upTo := r.Redis.B().Zcount().Key(p.PermitsKey).Min("-inf").Max(strconv.FormatInt(at, 10)).Build()
		if ranks[i], err = r.Redis.Do(ctx, upTo).AsInt64(); err != nil {
			return 0, r.Redis.Explain(err)
		}
	}
	_, err = r.grants(ctx, p.PermitsKey, ranks[0], ranks[1]-1, pages, func(g Grant) { permits += max(0, g.Permits) })
	return permits, err
}

func (w *search) addHashes(found []*Redisson) {
	for _, l := range found {
		switch {
		case l == nil || w.redisson[l.Name] != nil:
		case len(w.redisson) >= w.Most:
			w.more++
		default:
			w.redisson[l.Name] = l
		}
	}
}

func (w *search) addKeys(keys []string) {
	for _, key := range keys {
		parsed, ok := names.Parse(strings.Clone(key))
		switch {
		case !ok:
			w.addUnknown(key)
		case w.prefix != "" && parsed.Prefix != w.prefix:
		case parsed.Part == names.Policy:
			w.addPolicy(parsed)
		default:
			w.addPair(parsed)
		}
	}
}

func (w *search) wants(name string) bool { return w.Pattern == "" || names.Match(w.Pattern, name) }

// addPair adds a pair to the limiters that use it, or to the orphans.
func (w *search) addPair(parsed names.Key) {
	name, counted := parsed.Name(), false
	for _, candidate := range parsed.Names() {
		l := w.redisson[candidate]
		if l == nil {
			continue
		}
		name = candidate
		counted = counted || l.mayCount(parsed.Client)
		if parsed.Client != "" && l.Valid() && l.mayCount(parsed.Client) {
			w.addClient(l, parsed.Client)
		}
	}
	if !counted && w.wants(name) {
		w.addOrphan(name, parsed)
	}
}

func (w *search) addClient(l *Redisson, id string) {
	switch {
	case l.clients[id]:
	case w.clients >= w.Most:
		w.more++
	case l.clients == nil:
		l.clients = make(map[string]bool)
		fallthrough
	default:
		l.clients[id] = true
		w.clients++
	}
}

func (w *search) addPolicy(parsed names.Key) {
	name := parsed.Name()
	stored, _ := names.ParseStored(parsed.Policy)
	key := stored.KeyOf(name)
	switch {
	case !w.wants(name) || w.name != "" && name != w.name || w.policies[key] != nil:
	case len(w.policies) >= w.Most:
		w.more++
	default:
		w.policies[key] = &Policy{Name: name, Stored: stored, Key: key}
	}
}

func (w *search) addUnknown(key string) {
	name, ok := names.MayBePolicy(key)
	if ok && w.wants(name) && (w.name == "" || name == w.name) && len(w.unknown) < w.Most {
		w.unknown[strings.Clone(key)] = true
	}
}

func (w *search) addOrphan(name string, parsed names.Key) {
	p := &Pair{Client: parsed.Client}
	p.ValueKey, p.PermitsKey = names.Pair(name, p.Client)
	switch {
	case w.orphans[p.ValueKey] != nil:
	case len(w.orphans) >= w.Most:
		w.more++
	default:
		w.orphans[p.ValueKey] = p
	}
}

const (
	// scanned is the COUNT of SCAN. One call takes about a hundredth of a millisecond of the server's
	// time, so that other callers do not notice it.
	scanned = 15

	pairPattern = "*{*" // every key of a limiter's state has a brace
)

func (r *Reader) walkHashes(ctx context.Context, w *search, node connect.Node) error {
	return w.walk(ctx, node, func(cursor uint64) rueidis.Completed {
		return node.B().Scan().Cursor(cursor).Count(scanned).Type("hash").Build()
	}, func(keys []string) error {
		keys = slices.DeleteFunc(keys, func(key string) bool { return !w.wants(key) })
		found, err := r.hashes(ctx, keys, false)
		w.addHashes(found)
		return err
	})
}

// walkState scans the keys of a node that match a pattern for state.
func (w *search) walkState(ctx context.Context, node connect.Node, pattern string) error {
	return w.walk(ctx, node, func(cursor uint64) rueidis.Completed {
		return node.B().Scan().Cursor(cursor).Match(pattern).Count(scanned).Build()
	}, func(keys []string) error {
		w.addKeys(keys)
		return nil
	})
}

func (w *search) walk(ctx context.Context, node connect.Node, command func(cursor uint64) rueidis.Completed,
	add func([]string) error) error {
	for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
		entry, err := node.Do(ctx, command(cursor)).AsScanEntry()
		if err != nil {
			return node.Explain(err)
		}
		if err := add(entry.Elements); err != nil {
			return err
		}
		cursor = entry.Cursor
		w.walked += scanned
		if w.Progress != nil {
			w.Progress(node.Where, w.walked)
		}
	}
	return nil
}
