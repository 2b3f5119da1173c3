package look

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Found is what a search has found, by name.
type Found struct {
	Redisson []*Redisson
	Policies []*Policy
	Orphans  []*Pair // pairs of which no limiter has the configuration, or whose limiter counts otherwise; Returns and counts are not set
	More     int64   // keys of limiters that were left out, since there were more than Search.Most
}

// Search says what to look for.
type Search struct {
	Pattern  string                         // of names; "" for all
	Most     int                            // limiters, as many clients, and as many orphans; the rest is counted alone; 0 for all
	Pages    int                            // of grants that are read of a limiter, at most
	Known    []names.Stored                 // for Of: the policies that the limiter has, where that is known
	All      bool                           // for Of: look for whatever is left over of other types and policies
	Progress func(node string, keys uint64) // called now and then, with about how many keys were looked at; may be nil
}

const (
	// scanned is how many keys one SCAN looks at: less than a tenth of a millisecond of the server's time, mostly.
	scanned = 50

	pairPattern = "*{*" // every key of a limiter's state has a brace
)

// search is a search under way.
type search struct {
	*Reader
	Search
	prefix   string // of the keys of the one limiter that is looked for
	redisson map[string]*Redisson
	clients  map[string]map[string]bool // of a Redisson limiter's name, the IDs
	seen     int                        // clients, of all limiters
	policies map[string]*Policy         // by key
	orphans  map[string]*Pair           // by prefix and client
	more     int64
	walked   uint64 // keys that the servers have looked at, about
}

func newSearch(r *Reader, s Search) *search {
	if s.Most <= 0 {
		s.Most = math.MaxInt
	}
	return &search{Reader: r, Search: s, redisson: map[string]*Redisson{}, clients: map[string]map[string]bool{},
		policies: map[string]*Policy{}, orphans: map[string]*Pair{}}
}

// Find searches all servers that hold keys, and reads the limiters that it finds.
func (r *Reader) Find(ctx context.Context, s Search) (*Found, error) {
	w := newSearch(r, s)
	nodes, err := r.Redis.Masters(ctx)
	if err != nil {
		return nil, err
	}
	// Configurations first, since they tell which pairs belong to somebody.
	for _, node := range nodes {
		if err := w.scan(ctx, node, "", "hash", w.addHashes); err != nil {
			return nil, err
		}
	}
	for _, node := range nodes {
		if err := w.scan(ctx, node, pairPattern, "", w.addKeys); err != nil {
			return nil, err
		}
	}
	return w.read(ctx)
}

// Of looks for one limiter's keys. What its name tells is read by name: the configuration, the pair of an OVERALL limiter, policies that are
// known. Clients, policies that are not known, and what is left over are found by SCAN, where they may be.
func (r *Reader) Of(ctx context.Context, name string, s Search) (*Found, error) {
	w := newSearch(r, s)
	w.Pattern = ""
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
	for _, stored := range s.Known {
		key := stored.Key(name)
		w.policies[key] = &Policy{Name: name, Stored: stored, Key: key}
	}
	l := w.redisson[name]
	overall := l != nil && l.Valid() && l.Config.Type == rratelimiter.Overall
	if s.All || !overall && (l != nil || len(s.Known) == 0) {
		nodes, err := r.Redis.Home(ctx, value)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			if err := w.scan(ctx, node, names.Pattern(name), "", w.addKeys); err != nil {
				return nil, err
			}
		}
	}
	found, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	found.Redisson = slices.DeleteFunc(found.Redisson, func(l *Redisson) bool { return l.Name != name })
	return found, nil
}

// scan walks the keys of a node, of a pattern and a type where they are given.
func (w *search) scan(ctx context.Context, node connect.Node, pattern, kind string, add func(context.Context, []string) error) error {
	typed := kind != ""
	for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
		entry, err := node.Do(ctx, scanCommand(node, cursor, pattern, typed)).AsScanEntry()
		if err != nil && typed && saidBy(err, "ERR syntax error") {
			typed = false // a server before 6.0
			entry, err = node.Do(ctx, scanCommand(node, cursor, pattern, false)).AsScanEntry()
		}
		if err != nil {
			return node.Explain(err)
		}
		if kind != "" && !typed {
			if entry.Elements, err = w.ofType(ctx, entry.Elements, kind); err != nil {
				return err
			}
		}
		if err := add(ctx, entry.Elements); err != nil {
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

func scanCommand(node connect.Node, cursor uint64, pattern string, hashes bool) rueidis.Completed {
	scan := node.B().Scan().Cursor(cursor)
	switch {
	case hashes:
		return scan.Count(scanned).Type("hash").Build()
	case pattern != "":
		return scan.Match(pattern).Count(scanned).Build()
	}
	return scan.Count(scanned).Build()
}

// ofType keeps the keys of a type, for servers whose SCAN does not.
func (w *search) ofType(ctx context.Context, keys []string, kind string) ([]string, error) {
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		commands[i] = w.Redis.B().Type().Key(key).Build()
	}
	results, err := w.ask(ctx, commands)
	var kept []string
	for i, result := range results {
		if is, _ := result.ToString(); is == kind {
			kept = append(kept, keys[i])
		}
	}
	return kept, err
}

// addHashes takes the hashes that are limiters.
func (w *search) addHashes(ctx context.Context, keys []string) error {
	var asked []string
	for _, key := range keys {
		if w.Pattern == "" || names.Match(w.Pattern, key) {
			asked = append(asked, key)
		}
	}
	for len(asked) > 0 {
		n := min(len(asked), pipeline)
		found, err := w.hashes(ctx, asked[:n], false)
		if err != nil {
			return err
		}
		for _, l := range found {
			switch {
			case l == nil || w.redisson[l.Name] != nil:
			case len(w.redisson) >= w.Most:
				w.more++
			default:
				w.redisson[l.Name] = l
			}
		}
		asked = asked[n:]
	}
	return nil
}

// addKeys takes the keys of limiters' state.
func (w *search) addKeys(_ context.Context, keys []string) error {
	for _, key := range keys {
		parsed, ok := names.Parse(key)
		if !ok {
			continue
		}
		owner, name := (*Redisson)(nil), parsed.Name()
		for _, candidate := range parsed.Names() {
			if l := w.redisson[candidate]; l != nil {
				owner, name = l, candidate
			}
		}
		if w.Pattern != "" && !names.Match(w.Pattern, name) || w.prefix != "" && parsed.Prefix != w.prefix {
			continue
		}
		key, name = strings.Clone(key), strings.Clone(name)
		switch {
		case parsed.Part == names.Policy:
			w.addPolicy(key, name, parsed)
		case owner != nil && owner.Valid() && (owner.Config.Type == rratelimiter.PerClient) == (parsed.Client != ""):
			if parsed.Client != "" {
				w.addClient(owner.Name, parsed.Client)
			}
		case owner == nil || owner.Valid():
			w.addOrphan(name, parsed)
		}
	}
	return nil
}

func (w *search) addClient(name, id string) {
	known := w.clients[name]
	switch {
	case known[id]:
	case w.seen >= w.Most:
		w.more++
	case known == nil:
		w.clients[name] = map[string]bool{}
		fallthrough
	default:
		w.clients[name][strings.Clone(id)] = true
		w.seen++
	}
}

func (w *search) addPolicy(key, name string, parsed names.Key) {
	stored, _ := names.ParseStored(parsed.Policy)
	switch {
	case w.policies[key] != nil:
	case len(w.policies) >= w.Most:
		w.more++
	default:
		w.policies[key] = &Policy{Name: name, Stored: stored, Key: key}
	}
}

func (w *search) addOrphan(name string, parsed names.Key) {
	id := parsed.Prefix + "\x00" + parsed.Client
	switch {
	case w.orphans[id] != nil:
	case len(w.orphans) >= w.Most:
		w.more++
	default:
		p := &Pair{Client: strings.Clone(parsed.Client)}
		p.ValueKey, p.PermitsKey = names.Pair(name, p.Client)
		w.orphans[id] = p
	}
}

// read reads what was found.
func (w *search) read(ctx context.Context) (*Found, error) {
	f := &Found{More: w.more}
	for _, l := range w.redisson {
		f.Redisson = append(f.Redisson, l)
	}
	slices.SortFunc(f.Redisson, func(a, b *Redisson) int { return cmp.Compare(a.Name, b.Name) })
	if err := w.Reader.read(ctx, f.Redisson, w.clients, w.Pages); err != nil {
		return nil, err
	}
	for _, p := range w.policies {
		f.Policies = append(f.Policies, p)
	}
	slices.SortFunc(f.Policies, func(a, b *Policy) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	for rest := f.Policies; len(rest) > 0; {
		n := min(len(rest), pipeline/2)
		if err := w.Reader.policies(ctx, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	for _, p := range w.orphans {
		f.Orphans = append(f.Orphans, p)
	}
	slices.SortFunc(f.Orphans, func(a, b *Pair) int { return cmp.Compare(a.ValueKey, b.ValueKey) })
	return f, nil
}
