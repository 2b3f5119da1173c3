package audit

import (
	"context"
	_ "embed"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/look"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

//go:embed repair.lua
var scripts string

// script joins parts of repair.lua.
func script(parts ...string) *rueidis.Lua {
	var all strings.Builder
	for _, part := range parts {
		_, text, _ := strings.Cut(scripts, "--@ "+part+"\n")
		text, _, _ = strings.Cut(text, "\n--@ ")
		all.WriteString(text + "\n")
	}
	return rueidis.NewLuaScript(all.String())
}

type repair = func(context.Context, *look.Reader) (bool, error)

func run(parts, keys []string, args ...string) repair {
	return func(ctx context.Context, r *look.Reader) (bool, error) {
		n, err := script(parts...).Exec(ctx, r.Redis.Client, keys, args).AsInt64()
		return n > 0, err
	}
}

// deleteOrphan deletes a pair that still no limiter counts by: none has one of the names, or it has the type that others count by.
func deleteOrphan(parsed names.Key, p *look.Pair, others string) repair {
	keys := []string{p.ValueKey, p.PermitsKey}
	return run([]string{"orphan"}, append(keys, parsed.Names()...), others)
}

// deleteIdle deletes the pair of a client, where it has taken nothing since, and where the server's clock too says that all has left the
// window: this host's may be wrong.
func deleteIdle(l *look.Redisson, p *look.Pair, ledger *look.Ledger) repair {
	value := ""
	if ledger.Value != nil {
		value = *ledger.Value
	}
	return run([]string{"idle"}, keysOf(l, p),
		append(l.Raw()[:3], value, strconv.FormatInt(ledger.Count, 10), ledger.Last)...)
}

// rewrite writes grants of old releases as new ones do.
func rewrite(key string, grants []look.Grant) repair {
	var args []string
	for _, g := range grants {
		args = append(args, g.Member, g.Rewritten())
	}
	return run([]string{"rewrite"}, []string{key}, args...)
}

// remove takes members out that are no grants.
func remove(key string, members []string) repair {
	return run([]string{"remove"}, []string{key}, members...)
}

func expire(key string, ms int64) repair {
	return run([]string{"expire"}, []string{key}, strconv.FormatInt(ms, 10))
}

func expireWith(l *look.Redisson, key string) repair {
	return run([]string{"with"}, []string{l.Name, key}, strconv.FormatInt(slack(l, key), 10))
}

func persist(l *look.Redisson, key string) repair {
	return run([]string{"persist"}, []string{l.Name, key})
}
