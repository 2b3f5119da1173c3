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

// script is one of repair.lua.
func script(name string) *rueidis.Lua {
	_, text, _ := strings.Cut(scripts, "--@ "+name+"\n")
	text, _, _ = strings.Cut(text, "\n--@ ")
	return rueidis.NewLuaScript(text)
}

type repair = func(context.Context, *look.Reader) (bool, error)

func run(name string, keys []string, args ...string) repair {
	return func(ctx context.Context, r *look.Reader) (bool, error) {
		n, err := script(name).Exec(ctx, r.Redis.Client, keys, args).AsInt64()
		return n > 0, err
	}
}

// setValue sets the free permits, where neither they nor the configuration nor the grants have changed.
func setValue(l *look.Redisson, p *look.Pair, ledger *look.Ledger, right int64) repair {
	has, value := "0", ""
	if ledger.Value != nil {
		has, value = "1", *ledger.Value
	}
	return run("value", []string{l.Name, p.ValueKey, p.PermitsKey},
		append(l.Raw()[:3], has, value, strconv.FormatInt(ledger.Count, 10), ledger.First, ledger.Last, strconv.FormatInt(right, 10))...)
}

// deleteOrphan deletes a pair that still no limiter counts by: none has one of the names, or it has the type that others count by.
func deleteOrphan(parsed names.Key, p *look.Pair, others string) repair {
	keys := []string{p.ValueKey, p.PermitsKey}
	return run("orphan", append(keys, parsed.Names()...), others)
}

// deleteIdle deletes the pair of a client, where it has taken nothing since, and where the server's clock too says that all has left the
// window: this host's may be wrong.
func deleteIdle(l *look.Redisson, p *look.Pair, ledger *look.Ledger) repair {
	value := ""
	if ledger.Value != nil {
		value = *ledger.Value
	}
	return run("idle", []string{l.Name, p.ValueKey, p.PermitsKey}, append(l.Raw()[:3], value, strconv.FormatInt(ledger.Count, 10), ledger.Last)...)
}

// rewrite writes grants of old releases as new ones do.
func rewrite(key string, grants []look.Grant) repair {
	var args []string
	for _, g := range grants {
		args = append(args, g.Member, g.Rewritten())
	}
	return run("rewrite", []string{key}, args...)
}

// remove takes members out that are no grants.
func remove(key string, members []string) repair { return run("remove", []string{key}, members...) }

func expire(key string, ms int64) repair {
	return run("expire", []string{key}, strconv.FormatInt(ms, 10))
}

func expireWith(l *look.Redisson, key string) repair {
	return run("with", []string{l.Name, key}, strconv.FormatInt(slack(l, key), 10))
}

func persist(l *look.Redisson, key string) repair { return run("persist", []string{l.Name, key}) }
