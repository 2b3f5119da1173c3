package rights_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/fallback"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// page is the one that documents rights.
const page = "../../../docs/compatibility.md"

// documentedRights returns the commands of each policy in docs/compatibility.md.
func documentedRights(t *testing.T) map[string][]string {
	t.Helper()
	rights := make(map[string][]string)
	for row := range strings.Lines(golden.Between(t, golden.Text(t, page), "| policy | commands in scripts |", "\n\n")) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || !strings.Contains(row, "`") {
			continue
		}
		for _, policy := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			for _, command := range regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(cells[2], -1) {
				rights[policy[1]] = append(rights[policy[1]], command[1])
			}
		}
	}
	rights["aligned"] = rights["Calendar"]
	return rights
}

// policyCalls returns the calls of a policy. Only its holder returns a place.
func policyCalls(l *limit.Limiter) map[string]func(ctx context.Context) error {
	calls := map[string]func(ctx context.Context) error{
		"TryAcquire":     func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, 2)) },
		"Take":           func(ctx context.Context) error { return redistest.Err(l.Take(ctx, 2)) },
		"a denial":       func(ctx context.Context) error { return redistest.Err(l.Take(ctx, rate)) },
		"TakeEach":       func(ctx context.Context) error { return redistest.Err(l.TakeEach(ctx, 1)) },
		"Peek":           func(ctx context.Context) error { return redistest.Err(l.Peek(ctx)) },
		"Drain":          func(ctx context.Context) error { return redistest.Err(l.Drain(ctx, 3)) },
		"Charge":         func(ctx context.Context) error { return redistest.Err(l.Charge(ctx, 1)) },
		"Release":        func(ctx context.Context) error { return l.Release(ctx, 1) },
		"Release of all": func(ctx context.Context) error { return l.Release(ctx, rate) },
		"Reset":          l.Reset,
		"Pause": func(ctx context.Context) error {
			err := l.Pause(ctx, time.Millisecond)
			if errors.Is(err, limit.ErrNotPausable) {
				return nil
			}
			return cmp.Or(err, l.Pause(ctx, 0))
		},
	}
	if _, held := l.Policies()[0].(limit.InFlight); held {
		for _, call := range []string{"Charge", "Release", "Release of all"} {
			delete(calls, call)
		}
	}
	return calls
}

// anotherRate returns a policy that shares its key with another version of a program, if its TTL depends on the rate.
func anotherRate(p limit.Policy) limit.Policy {
	switch p := p.(type) {
	case limit.TokenBucket:
		p.Refill++
		return p
	case limit.LeakyBucket:
		p.Leak++
		return p
	case limit.Smooth:
		p.Burst *= 2
		return p
	}
	return p
}

// Each documented right is also needed.
func TestPolicies_DocumentedRights_AreEnough(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.do(t, "SCRIPT", "FLUSH")
	rights := documentedRights(t)
	always := []string{"EVALSHA", "EVAL"}
	// run reports whether a call was refused.
	run := func(policy limit.Policy, commands []string, beside ...limit.Policy) (refused bool) {
		s.do(t, "FLUSHALL")
		s.now = time.Now()
		weak := s.allowed(t, append(slices.Clone(always), commands...), rratelimiter.WithClock(s.clock))
		all := append([]limit.Policy{policy}, beside...)
		full := limit.New(s.all, "name", append([]limit.Policy{anotherRate(policy)}, beside...)...)
		calls := policyCalls(limit.New(weak, "name", all...))
		for range 3 {
			for _, name := range slices.Sorted(maps.Keys(calls)) {
				for range 12 { // of which some expire
					s.now = s.now.Add(interval / 13)
					require.NoError(t, redistest.Err(full.TryAcquire(t.Context(), 1)))
				}
				refused = limited(t, calls[name](t.Context()), "") || refused
				s.now = s.now.Add(interval / 2) // the next call removes what expires
				refused = limited(t, calls["Take"](t.Context()), "") || refused
			}
		}
		message := s.do(t, "KEYS", "{name}:*")
		keys, err := message.AsStrSlice()
		require.NoError(t, err)
		for _, key := range keys {
			s.do(t, "PERSIST", key) // as another program may
		}
		refused = limited(t, calls["a denial"](t.Context()), "") || refused
		at := s.now // leases end and places return after this function has returned, when the clock is another test's
		if _, held := policy.(limit.InFlight); held {
			s.do(t, "FLUSHALL")
			holding := limit.New(s.allowed(t, append(slices.Clone(always), commands...),
				rratelimiter.WithClock(func() time.Time { return at })), "name", all...)
			var taken limit.Taken
			refused = limited(t, redistest.Err(taken.Take(t.Context(), 1, holding)), "") || refused
			refused = limited(t, taken.Settle(t.Context(), 1), "") || refused
		}
		prefetching := s.allowed(t, append(slices.Clone(always), commands...), rratelimiter.WithPrefetch(time.Second),
			rratelimiter.WithClock(func() time.Time { return at }))
		many := policy
		if window, ok := policy.(limit.FixedWindow); ok {
			window.Permits = 1e6
			many = window
		}
		for range 200 {
			_, err := limit.New(prefetching, "prefetched", many).TryAcquire(t.Context(), 1)
			refused = limited(t, err, "") || refused
		}
		return refused
	}
	used := make(map[string]bool)
	every := maps.Clone(policies)
	every["Pause"] = limit.Pause{Most: time.Hour}
	for name, policy := range every {
		require.NotEmpty(t, rights[name], name)
		require.False(t, run(policy, rights[name]), name)
		for i, command := range rights[name] {
			used[command] = true
			require.True(t, run(policy, slices.Delete(slices.Clone(rights[name]), i, i+1)), "%s does not need %s", name, command)
		}
	}
	penalty := limit.Penalty{Denials: 2, Within: time.Hour, For: time.Minute}
	both := append(slices.Clone(rights["Penalty"]), rights["FixedWindow"]...)
	require.False(t, run(policies["FixedWindow"], both, penalty))
	for _, command := range policyCommands(t) {
		require.True(t, used[command] || command == "TIME", "no policy has %s", command)
	}
	weak := s.allowed(t, append(always, append(rights["TokenBucket"], "TIME")...), rratelimiter.WithServerTime())
	require.NoError(t, redistest.Err(limit.New(weak, "name", policies["TokenBucket"]).TryAcquire(t.Context(), 1)))
}

// redissonRights returns the commands of package rratelimiter in docs/compatibility.md.
func redissonRights(t *testing.T) (rights []string) {
	t.Helper()
	text := golden.Between(t, golden.Text(t, page), "## Rights", "Package `limit`")
	for _, found := range regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(text, -1) {
		rights = append(rights, found[1])
	}
	return rights
}

// patternsOf are the documented patterns of keys of a kind of names.
type patternsOf struct {
	name            string
	redisson, limit []string
}

func documentedPatterns(t *testing.T) (all []patternsOf) {
	t.Helper()
	quoted := func(cell string) (texts []string) {
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			texts = append(texts, found[1])
		}
		return texts
	}
	for row := range strings.Lines(golden.Between(t, golden.Text(t, page), "| names such as |", "\n\n")) {
		if cells := strings.Split(row, "|"); len(cells) == 5 && strings.Contains(cells[1], "`") {
			all = append(all, patternsOf{quoted(cells[1])[0], quoted(cells[2]), quoted(cells[3])})
		}
	}
	require.Len(t, all, 3)
	return all
}

// Every call has exactly the documented commands and keys, with names of each kind. So has an outage: it ends,
// and no caller that waits begins one.
func TestKeys_DocumentedPatterns_AreEnough(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := rratelimiter.Rate{Permits: rate, Interval: interval}
	always := []string{"EVALSHA", "EVAL"}
	for _, row := range documentedPatterns(t) {
		s.now = time.Now()
		weak := s.allowedOn(t, row.redisson, redissonRights(t), rratelimiter.WithClientID(s.id)).Limiter(row.name)
		for _, c := range calls(weak, r) {
			if c.name == "Rename" || c.name == "RenameNX" || c.name == "Copy" {
				continue // to a name that has other keys
			}
			s.do(t, "FLUSHALL")
			require.NoError(t, s.all.Limiter(row.name).SetRate(t.Context(), r))
			require.NoError(t, c.do(t.Context()), "%s of %q", c.name, row.name)
		}
		s.outage(t, weak)
		for name, policy := range policies {
			s.do(t, "FLUSHALL")
			commands := append(slices.Clone(always), documentedRights(t)[name]...)
			client := s.allowedOn(t, row.limit, commands)
			l := limit.New(client, row.name, policy)
			for call, do := range policyCalls(l) {
				require.NoError(t, do(t.Context()), "%s of %s %q", call, name, row.name)
			}
			var taken limit.Taken
			settles := limit.New(s.allowedOn(t, row.limit, append(commands, "SET", "UNLINK")), row.name, policy)
			require.NoError(t, redistest.Err(taken.Take(t.Context(), 2, settles)))
			require.NoError(t, taken.Settle(t.Context(), 1), "%s %q", name, row.name)
			if name == "SlidingLog" || name == "FixedWindow" {
				s.do(t, "FLUSHALL")
				s.allowedOn(t, row.limit, commands)
				s.outage(t, l)
			}
		}
	}
}

// outage hangs the server for a moment, with requests to a middleware with the limiter.
func (s *stage) outage(t *testing.T, l limit.Joinable) {
	t.Helper()
	s.do(t, "FLUSHALL")
	if redisson, ok := l.(*rratelimiter.Limiter); ok {
		require.NoError(t, s.all.Limiter(redisson.Name()).SetRate(t.Context(),
			rratelimiter.Rate{Permits: rate, Interval: interval}))
	}
	var down atomic.Bool
	changed := fallback.OnRedisChange(func(_ string, up bool, _ error) { down.Store(!up) })
	guarded := fallback.New(l, fallback.Deadline(100*time.Millisecond), changed)
	_, _, err := guarded.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	waiting, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _, _ = guarded.Acquire(waiting, rate) }() // checks, while no other call is answered
	time.Sleep(500 * time.Millisecond)
	require.False(t, down.Load(), "%s", l.Name())
	require.NoError(t, s.server.Pause())
	require.Eventually(t, func() bool {
		_, _, _ = guarded.TryAcquire(t.Context(), 1)
		return down.Load()
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, s.server.Resume())
	require.Eventually(t, func() bool {
		_, _, err := guarded.TryAcquire(t.Context(), 1)
		return err == nil && !down.Load()
	}, time.Minute, 10*time.Millisecond, "%s", l.Name())
}

// The calls of package rratelimiter.
func TestRedisson_DocumentedRights_AreEnough(t *testing.T) {
	t.Parallel()
	rights := redissonRights(t)
	s := newStage(t)
	weak := s.allowed(t, rights, rratelimiter.WithClock(s.clock), rratelimiter.WithClientID(s.id)).Limiter("limiter")
	for _, r := range []rratelimiter.Rate{
		{Permits: rate, Interval: interval}, {Permits: rate, Interval: interval, KeepAlive: 2 * interval},
		{Type: rratelimiter.PerClient, Permits: rate, Interval: interval},
	} {
		for _, before := range states {
			for _, c := range calls(weak, r) {
				s.prepare(t, r, before)
				require.NoError(t, c.do(t.Context()), "%s, %s", c.name, before)
			}
		}
	}
}
