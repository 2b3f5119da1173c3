package rights_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// documentedRights returns the commands of each policy in docs/compatibility.md.
func documentedRights(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(page), "| policy | commands in scripts |")
	require.True(t, ok)
	rights := make(map[string][]string)
	for row := range strings.Lines(text) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || !strings.Contains(row, "`") {
			if len(rights) > 0 {
				break
			}
			continue
		}
		for _, policy := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			for _, command := range regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(cells[2], -1) {
				rights[policy[1]] = append(rights[policy[1]], command[1])
			}
		}
	}
	rights["aligned"] = rights["FixedWindow"]
	return rights
}

// policyCalls returns the calls of a policy.
func policyCalls(l *limit.Limiter) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"TryAcquire":     func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, 2)) },
		"Take":           func(ctx context.Context) error { return redistest.Err(l.Take(ctx, 2)) },
		"a denial":       func(ctx context.Context) error { return redistest.Err(l.Take(ctx, rate)) },
		"TakeEach":       func(ctx context.Context) error { return redistest.Err(l.TakeEach(ctx, 1)) },
		"Peek":           func(ctx context.Context) error { return redistest.Err(l.Peek(ctx)) },
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
}

// Each documented right is also needed.
func TestPolicies_DocumentedRights_AreEnough(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.do(t, "SCRIPT", "FLUSH")
	rights := documentedRights(t)
	always := []string{"EVALSHA", "EVAL"}
	// run reports whether a call was refused.
	run := func(policy limit.Policy, commands []string) (refused bool) {
		s.do(t, "FLUSHALL")
		s.now = time.Now()
		weak := s.allowed(t, append(slices.Clone(always), commands...), rratelimiter.WithClock(s.clock))
		full := limit.New(s.all, "name", policy)
		calls := policyCalls(limit.New(weak, "name", policy))
		for range 3 {
			for _, name := range slices.Sorted(maps.Keys(calls)) {
				for range 12 { // of which some expire
					s.now = s.now.Add(interval / 13)
					_, err := full.TryAcquire(t.Context(), 1)
					require.NoError(t, err)
				}
				refused = limited(t, calls[name](t.Context()), "") || refused
				s.now = s.now.Add(interval / 2) // the next call removes what expires
				refused = limited(t, calls["Take"](t.Context()), "") || refused
			}
		}
		at := s.now // leases end after this function has returned, when the clock is another test's
		leasing := s.allowed(t, append(slices.Clone(always), commands...), rratelimiter.WithLease(time.Second),
			rratelimiter.WithClock(func() time.Time { return at }))
		many := policy
		if window, ok := policy.(limit.FixedWindow); ok {
			window.Permits = 1e6
			many = window
		}
		for range 200 {
			_, err := limit.New(leasing, "leased", many).TryAcquire(t.Context(), 1)
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
			if command == "PTTL" && name != "FixedWindow" && name != "Pause" {
				continue // of windows that are not aligned
			}
			require.True(t, run(policy, slices.Delete(slices.Clone(rights[name]), i, i+1)), "%s does not need %s", name, command)
		}
	}
	for _, command := range policyCommands(t) {
		require.True(t, used[command] || command == "TIME", "no policy has %s", command)
	}
	weak := s.allowed(t, append(always, append(rights["TokenBucket"], "TIME")...), rratelimiter.WithServerTime())
	_, err := limit.New(weak, "name", policies["TokenBucket"]).TryAcquire(t.Context(), 1)
	require.NoError(t, err)
}

// The calls of package rratelimiter.
func TestRedisson_DocumentedRights_AreEnough(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(page), "## Rights")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "Package `limit`")
	var rights []string
	for _, found := range regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(text, -1) {
		rights = append(rights, found[1])
	}
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
