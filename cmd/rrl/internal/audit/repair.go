package audit

import (
	"context"
	_ "embed"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

//go:embed repair.lua
var scripts string

func script(parts ...string) *rueidis.Lua {
	var all strings.Builder
	for _, part := range parts {
		_, text, _ := strings.Cut(scripts, "--@ "+part+"\n")
		text, _, _ = strings.Cut(text, "\n--@ ")
		all.WriteString(text + "\n")
	}
	return rueidis.NewLuaScript(all.String())
}

type repair = func(context.Context, *inspect.Reader) (bool, error)

func run(parts, keys []string, args ...string) repair {
	return func(ctx context.Context, r *inspect.Reader) (bool, error) {
		n, err := script(parts...).Exec(ctx, r.Redis.Client, keys, args).AsInt64()
		return n > 0, err
	}
}

// deleteOrphan deletes a pair if still no limiter uses it.
func deleteOrphan(parsed names.Key, p *inspect.Pair, others string) repair {
	keys := []string{p.ValueKey, p.PermitsKey}
	return run([]string{"orphan"}, append(keys, parsed.Names()...), others)
}

// deleteIdle deletes the pair of a client that has taken nothing since. All grants must have expired by
// the server's clock too, since the clock of this host may be wrong.
func deleteIdle(l *inspect.Redisson, p *inspect.Pair, totals *inspect.Totals) repair {
	value := ""
	if totals.Value != nil {
		value = *totals.Value
	}
	return run([]string{"idle"}, keysOf(l, p),
		append(l.Raw()[:3], value, strconv.FormatInt(totals.Count, 10), totals.Last)...)
}

func rewrite(key string, grants []inspect.Grant) repair {
	var args []string
	for _, g := range grants {
		args = append(args, g.Member, g.Rewritten())
	}
	return run([]string{"rewrite"}, []string{key}, args...)
}

func remove(key string, members []string) repair {
	return run([]string{"remove"}, []string{key}, members...)
}

func expire(key string, ms int64) repair {
	return run([]string{"expire"}, []string{key}, strconv.FormatInt(ms, 10))
}

func expireWith(l *inspect.Redisson, key string) repair {
	return run([]string{"with"}, []string{l.Name, key}, strconv.FormatInt(slack(l, key), 10))
}

func persist(l *inspect.Redisson, key string) repair {
	return run([]string{"persist"}, []string{l.Name, key})
}
