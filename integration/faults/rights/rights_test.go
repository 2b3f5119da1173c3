// Package rights_test removes each permission (ACL) of a user of Redis in turn. Redis rejects a
// command when a script reaches it, so a script can end between its writes. Then no taken permit may
// be free, and lost permits return within an interval.
package rights_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// commands returns the commands of the scripts: those in their text, and those that Expire and
// ClearExpire pass as arguments.
func commands(t *testing.T) []string {
	t.Helper()
	var text []byte
	for _, pattern := range []string{"script.lua", "scripts/*.lua", "internal/include/*.lua"} {
		files, err := filepath.Glob("../../../" + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			source := golden.Text(t, file)
			text = append(text, source...)
		}
	}
	all := []string{"PEXPIRE", "PEXPIREAT", "PERSIST", "RENAME", "COPY"}
	for _, found := range regexp.MustCompile(`\bp?call\('([A-Z]+)'`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

const (
	rate     = 10
	interval = time.Hour
)

// call is one call of a limiter by a user who may lack a permission for it.
type call struct {
	name     string
	takes    int64 // at most
	releases int64 // at most
	do       func(ctx context.Context) error
	fresh    bool // nothing is taken afterwards
}

// calls returns the calls of a limiter that has a rate.
func calls(l *rratelimiter.Limiter, r rratelimiter.Rate) []call {
	keep := rratelimiter.KeepState()
	higher, lower, lasting := r, r, r
	higher.Permits, lower.Permits, lasting.KeepAlive = rate+5, rate-2, 3*interval
	return []call{
		{name: "TryAcquire", takes: 2, do: func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, 2)) }},
		{name: "TryAcquire of all", takes: rate,
			do: func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, rate)) }},
		{name: "Take", takes: 2, do: func(ctx context.Context) error { return redistest.Err(l.Take(ctx, 2)) }},
		{name: "Take of all", takes: rate, do: func(ctx context.Context) error { return redistest.Err(l.Take(ctx, rate)) }},
		{name: "Acquire", takes: 1, do: func(ctx context.Context) error { return l.Acquire(ctx, 1) }},
		{name: "TryAcquireWithin", takes: 1,
			do: func(ctx context.Context) error { return redistest.Err(l.TryAcquireWithin(ctx, 1, time.Minute)) }},
		{name: "Release", releases: 2, do: func(ctx context.Context) error { return l.Release(ctx, 2) }},
		{name: "Release of a grant", releases: 3, do: func(ctx context.Context) error { return l.Release(ctx, 3) }},
		{name: "Release of all", releases: rate, do: func(ctx context.Context) error { return l.Release(ctx, rate) }},
		{name: "AvailablePermits", do: func(ctx context.Context) error { return redistest.Err(l.AvailablePermits(ctx)) }},
		{name: "TrySetRate", do: func(ctx context.Context) error { return redistest.Err(l.TrySetRate(ctx, r)) }},
		{name: "SetRate", fresh: true, do: func(ctx context.Context) error { return l.SetRate(ctx, r) }},
		{name: "SetRate lower", do: func(ctx context.Context) error { return l.SetRate(ctx, lower, keep) }},
		{name: "SetRate higher", do: func(ctx context.Context) error { return l.SetRate(ctx, higher, keep) }},
		{name: "UpdateRate", do: func(ctx context.Context) error { return redistest.Err(l.UpdateRate(ctx, r, keep)) }},
		{name: "UpdateRate with a keep-alive",
			do: func(ctx context.Context) error { return redistest.Err(l.UpdateRate(ctx, lasting, keep)) }},
		{name: "Expire", do: func(ctx context.Context) error { return redistest.Err(l.Expire(ctx, 2*interval)) }},
		{name: "ExpireAt",
			do: func(ctx context.Context) error { return redistest.Err(l.ExpireAt(ctx, time.Now().Add(2*interval))) }},
		{name: "ClearExpire", do: func(ctx context.Context) error { return redistest.Err(l.ClearExpire(ctx)) }},
		{name: "ExpireTime", do: func(ctx context.Context) error { return redistest.Err(l.ExpireTime(ctx)) }},
		{name: "Copy",
			do: func(ctx context.Context) error { return redistest.Err(l.Copy(ctx, "other", rratelimiter.Replace())) }},
		{name: "Rename", do: func(ctx context.Context) error { return l.Rename(ctx, "other") }},
	}
}

func TestRedisson_RightMissing_FreesNoPermits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	refused := make(map[string]int) // by command
	all := slices.DeleteFunc(commands(t), func(command string) bool {
		info := s.do(t, "COMMAND", "INFO", command)
		known, err := info.ToArray()
		require.NoError(t, err)
		if known[0].IsNil() {
			t.Logf("this server has no %s", command)
		}
		return known[0].IsNil()
	})
	// By default each call without a command, in one state, has one of the three rates; with
	// RIGHTS=1 it has each of them.
	each := env.Number("RIGHTS", 0) != 0
	for i, command := range all {
		weak := s.without(t, command)
		for j, r := range []rratelimiter.Rate{
			{Permits: rate, Interval: interval},
			{Permits: rate, Interval: interval, KeepAlive: 2 * interval},
			{Type: rratelimiter.PerClient, Permits: rate, Interval: interval},
		} {
			// A limiter that has no rate yet.
			s.do(t, "FLUSHALL")
			if _, err := weak.Limiter("limiter").TrySetRate(t.Context(), r); err != nil {
				refused[command]++
				require.NoError(t, redistest.Err(s.all.Limiter("limiter").TrySetRate(t.Context(), r)))
				config, err := s.all.Limiter("limiter").Config(t.Context())
				require.NoError(t, err)
				require.Equal(t, r, config)
			}
			for k, before := range states {
				for l, c := range calls(weak.Limiter("limiter"), r) {
					if !each && (i+j+k+l)%3 != 0 {
						continue
					}
					about := fmt.Sprintf("%s without %s, %v, %s", c.name, command, r, before)
					taken := s.prepare(t, r, before)
					err := c.do(t.Context())
					if err == nil || errors.Is(err, rratelimiter.ErrUnsupported) { // Copy, before 6.2
						continue
					}
					var redisErr *rueidis.RedisError
					require.ErrorAs(t, err, &redisErr, about)
					require.Contains(t, err.Error(), `"limiter"`, about)
					require.Regexp(t, `(?i)permission|can.t run this command`, err.Error(), about)
					refused[command]++
					s.settled(t)
					// The correction may have been refused before it began, or be complete.
					switch {
					case strings.HasPrefix(before, released):
						c.releases += drifted
					case strings.HasPrefix(before, lost):
						c.takes += missing
					}
					s.check(t, c, taken, about)
				}
			}
		}
	}
	for _, command := range all {
		t.Logf("%-17s rejected %d calls", command, refused[command])
		switch command {
		case "PEXPIRETIME": // an older server lacks it, so that its absence is no error
		case "ZSCORE": // of refunds: TestRefund_CommandIsNotPermitted_FreesNothing
		case "ZRANGEBYSCORE", "ZREVRANGEBYSCORE": // of sets of more than a page
		case "ZRANK": // of waiters beside those of other Clients, whose calls do without it
		default:
			require.Positive(t, refused[command], "no call uses %s", command)
		}
	}
}

// check checks the limiters after a rejected call.
func (s *stage) check(t *testing.T, c call, taken int64, about string) {
	t.Helper()
	name := "limiter"
	free, permits := s.free(t, name)
	other, otherRate := s.free(t, "other")
	if free < 0 {
		// The rejected command came after the rename.
		require.Equal(t, "Rename", c.name, about)
		name, free, permits = "other", other, otherRate
		other = 0
	}
	if c.name == "Copy" && other == free {
		other = 0 // likewise
	}
	require.GreaterOrEqual(t, free, int64(0), "%s: the limiter is gone", about)
	most := permits - taken + c.releases
	if c.fresh {
		most = permits
	}
	require.LessOrEqual(t, free, max(0, min(permits, most)), "%s: more is free than can be", about)
	require.GreaterOrEqual(t, free, permits-taken-c.takes-c.releases-max(0, rate-permits), "%s: permits are lost",
		about)
	require.Zero(t, other, "%s: the other limiter, of %d", about, otherRate)

	// The load goes on, so that the set is never empty.
	later := s.now.Add(interval)
	s.now = s.now.Add(interval / 2)
	// A count of drift follows the first call of a new Client.
	client := rratelimiter.New(s.redis, rratelimiter.WithClientID(s.id), rratelimiter.WithClock(s.clock))
	l, n := client.Limiter(name), int64(0)
	ok := redistest.Result(t, l.TryAcquire, 1)
	require.Equal(t, free > 0, ok, about)
	if ok {
		n = 1
	}
	require.NoError(t, client.Flush(t.Context()))
	s.now = later
	free, _ = s.free(t, name)
	require.Equal(t, permits-n, free, "%s: an interval later", about)
	ok = redistest.Result(t, l.TryAcquire, permits-n)
	require.True(t, ok, about)
	require.False(t, redistest.Result(t, l.TryAcquire, 1), about)
}
