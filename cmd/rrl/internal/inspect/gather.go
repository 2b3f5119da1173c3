package inspect

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

func (w *search) addHashes(ctx context.Context, keys []string) error {
	var asked []string
	for _, key := range keys {
		if w.wants(key) {
			asked = append(asked, key)
		}
	}
	found, err := w.hashes(ctx, asked, false)
	for _, l := range found {
		switch {
		case l == nil || w.redisson[l.Name] != nil:
		case len(w.redisson) >= w.Most:
			w.more++
		default:
			w.redisson[l.Name] = l
		}
	}
	return err
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
			w.addClient(candidate, parsed.Client)
		}
	}
	if !counted && w.wants(name) {
		w.addOrphan(name, parsed)
	}
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
		w.clients[name][id] = true
		w.seen++
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
	id := parsed.Prefix + "\x00" + parsed.Client
	switch {
	case w.orphans[id] != nil:
	case len(w.orphans) >= w.Most:
		w.more++
	default:
		p := &Pair{Client: parsed.Client}
		p.ValueKey, p.PermitsKey = names.Pair(name, p.Client)
		w.orphans[id] = p
	}
}

const (
	// scanned is the COUNT of SCAN. One call takes about a hundredth of a millisecond of the server's
	// time, so that other callers do not notice it.
	scanned = 15

	pairPattern = "*{*" // every key of a limiter's state has a brace
)

func (w *search) hashesOf(ctx context.Context, node connect.Node) error {
	return w.walk(ctx, node, func(cursor uint64) rueidis.Completed {
		return node.B().Scan().Cursor(cursor).Count(scanned).Type("hash").Build()
	}, w.addHashes)
}

// stateOf scans the keys of a node that match a pattern for state.
func (w *search) stateOf(ctx context.Context, node connect.Node, pattern string) error {
	return w.walk(ctx, node, func(cursor uint64) rueidis.Completed {
		return node.B().Scan().Cursor(cursor).Match(pattern).Count(scanned).Build()
	}, func(_ context.Context, keys []string) error {
		w.addKeys(keys)
		return nil
	})
}

func (w *search) walk(ctx context.Context, node connect.Node, command func(cursor uint64) rueidis.Completed,
	add func(context.Context, []string) error) error {
	for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
		entry, err := node.Do(ctx, command(cursor)).AsScanEntry()
		if err != nil {
			return node.Explain(err)
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
