package rights_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// policies are those of package limit, each with rate permits.
var policies = map[string]limit.Policy{
	"FixedWindow":   limit.FixedWindow{Permits: rate, Interval: interval},
	"aligned":       limit.FixedWindow{Permits: rate, Interval: interval, Aligned: true},
	"Calendar":      limit.Calendar{Permits: rate, Unit: limit.Day},
	"SlidingWindow": limit.SlidingWindow{Permits: rate, Interval: interval},
	"SlidingLog":    limit.SlidingLog{Permits: rate, Interval: interval},
	"TokenBucket":   limit.TokenBucket{Capacity: rate, Refill: rate, Interval: interval},
	"LeakyBucket":   limit.LeakyBucket{Capacity: rate, Leak: rate, Interval: interval},
	"Smooth":        limit.Smooth{Permits: rate, Interval: interval, Burst: interval},
}

// policyCommands are those that the scripts of package limit run.
func policyCommands(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../limit/*.lua")
	require.NoError(t, err)
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`\bcall\('([A-Z]+)'`).FindAllStringSubmatch(string(text), -1) {
			if file != "../../../limit/redisson.lua" {
				all = append(all, found[1])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func newStage(t *testing.T) *stage {
	server := servers.Single(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	s := &stage{server: server, redis: redis}
	s.all = rratelimiter.New(redis, rratelimiter.WithClock(s.clock))
	return s
}

// limited reports whether a call was refused for want of a right. No other error is allowed: a script that was stopped before must not
// have left a state that a policy refuses.
func limited(t *testing.T, err error, about string) bool {
	t.Helper()
	if err == nil {
		return false
	}
	var redisErr *rueidis.RedisError
	require.ErrorAs(t, err, &redisErr, about)
	require.Regexp(t, `(?i)permission|can.t run this command`, err.Error(), about)
	return true
}

// TestPolicies_RightMissingForAMoment_KeepTheLimit: some calls lack a right, so that their scripts stop before any of their writes. The others
// never get more than the policy grants, none of them fails, and an interval after the last call all is free.
func TestPolicies_RightMissingForAMoment_KeepTheLimit(t *testing.T) {
	type grant struct {
		at      time.Time
		permits int64
	}
	// What an interval of the clock may see at most.
	most := map[string]int64{"FixedWindow": 2 * rate, "aligned": 2 * rate, "Calendar": 2 * rate, "TokenBucket": 2 * rate, "LeakyBucket": 2 * rate, "SlidingWindow": rate, "SlidingLog": rate}
	s := newStage(t)
	for _, command := range policyCommands(t) {
		weak := s.without(t, command)
		for name, bound := range most {
			refused := 0
			for seed := range uint64(4) {
				s.do(t, "FLUSHALL")
				random := rand.New(rand.NewPCG(seed, 1))
				s.now = time.Now()
				var grants []grant
				for step := range 80 {
					s.now = s.now.Add(time.Duration(random.Int64N(int64(interval / 8))))
					if random.IntN(3) == 0 {
						s.now = s.now.Truncate(interval / 20) // several calls in one cell and one millisecond
					}
					about := fmt.Sprintf("%s without %s, seed %d, step %d", name, command, seed, step)
					client := s.all
					if random.IntN(3) == 0 {
						client = weak
					}
					n := 1 + random.Int64N(4)
					ok, err := limit.New(client, "name", policies[name]).TryAcquire(t.Context(), n)
					if limited(t, err, about) {
						require.Equal(t, weak, client, about)
						refused++
					}
					if !ok {
						continue
					}
					grants = append(grants, grant{s.now, n})
					sum := int64(0)
					for _, g := range slices.Backward(grants) {
						if s.now.Sub(g.at) < interval {
							sum += g.permits
						}
					}
					require.LessOrEqual(t, sum, bound, about)
					if bound == rate { // each grant counts for an interval of the server's clock
						message := s.do(t, "RANDOMKEY")
						key, err := message.ToString()
						require.NoError(t, err)
						message = s.do(t, "PTTL", key)
						left, err := message.AsInt64()
						require.NoError(t, err)
						require.Greater(t, left, (interval - time.Minute).Milliseconds(), about)
					}
				}
				s.now = s.now.Add(25 * time.Hour)
				ok, err := limit.New(s.all, "name", policies[name]).TryAcquire(t.Context(), rate)
				require.NoError(t, err)
				require.True(t, ok, "%s without %s", name, command)
			}
			t.Logf("%s without %s: %d calls refused", name, command, refused)
		}
	}
}

// TestPolicies_RightMissingInARelease_FreesNoMore than was released.
func TestPolicies_RightMissingInARelease_FreesNoMore(t *testing.T) {
	s := newStage(t)
	for _, command := range policyCommands(t) {
		weak := s.without(t, command)
		for name, policy := range policies {
			if name == "Smooth" {
				continue // has no count
			}
			for _, n := range []int64{1, 2, 3, 5, 7} {
				s.do(t, "FLUSHALL")
				s.now = time.Now().Truncate(24 * time.Hour)
				full := limit.New(s.all, "name", policy)
				for _, permits := range []int64{2, 1, 4} {
					s.now = s.now.Add(time.Second)
					ok, err := full.TryAcquire(t.Context(), permits)
					require.NoError(t, err)
					require.True(t, ok)
				}
				about := fmt.Sprintf("%s without %s, %d", name, command, n)
				limited(t, limit.New(weak, "name", policy).Release(t.Context(), n), about)
				all, err := full.Peek(t.Context())
				require.NoError(t, err, about)
				require.LessOrEqual(t, all[0].Remaining, 3+n, about)
				require.GreaterOrEqual(t, all[0].Remaining, int64(3), about)
				s.now = s.now.Add(24 * time.Hour)
				ok, err := full.TryAcquire(t.Context(), rate)
				require.NoError(t, err)
				require.True(t, ok, about)
			}
		}
	}
}

// acts are the calls of a policy.
func acts() map[string]func(ctx context.Context, l *limit.Limiter) error {
	errOf := func(_ any, err error) error { return err }
	reserved := func(err error) error {
		if errors.Is(err, limit.ErrNotReservable) {
			return nil
		}
		return err
	}
	return map[string]func(ctx context.Context, l *limit.Limiter) error{
		"TryAcquire":     func(ctx context.Context, l *limit.Limiter) error { return errOf(l.TryAcquire(ctx, 2)) },
		"Take":           func(ctx context.Context, l *limit.Limiter) error { return errOf(l.Take(ctx, 2)) },
		"a denial":       func(ctx context.Context, l *limit.Limiter) error { return errOf(l.Take(ctx, rate)) },
		"TakeEach":       func(ctx context.Context, l *limit.Limiter) error { return errOf(l.TakeEach(ctx, 1)) },
		"Peek":           func(ctx context.Context, l *limit.Limiter) error { return errOf(l.Peek(ctx)) },
		"Charge":         func(ctx context.Context, l *limit.Limiter) error { return errOf(l.Charge(ctx, 1)) },
		"Release":        func(ctx context.Context, l *limit.Limiter) error { return l.Release(ctx, 1) },
		"Release of all": func(ctx context.Context, l *limit.Limiter) error { return l.Release(ctx, rate) },
		"Reset":          func(ctx context.Context, l *limit.Limiter) error { return l.Reset(ctx) },
		"Reserve": func(ctx context.Context, l *limit.Limiter) error {
			for range 3 {
				r, err := l.Reserve(ctx, rate)
				if err != nil {
					return reserved(err)
				}
				if err := r.Cancel(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// documentedRights are the commands of each policy, as the page says.
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

// allowed gives a client whose user has these commands alone, and those of a connection.
func (s *stage) allowed(t *testing.T, commands []string, opts ...rratelimiter.Option) *rratelimiter.Client {
	t.Helper()
	rights := []string{"ACL", "SETUSER", "weak", "reset", "on", ">secret", "~*", "+@connection"}
	for _, command := range commands {
		rights = append(rights, "+"+strings.ToLower(command))
	}
	s.do(t, rights...)
	redis, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.server.Addr()}, Username: "weak", Password: "secret", ForceSingleClient: true, DisableCache: true,
	})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	return rratelimiter.New(redis, opts...)
}

// TestPolicies_DocumentedRights_AreEnough, and each of them is needed.
func TestPolicies_DocumentedRights_AreEnough(t *testing.T) {
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
		actions := acts()
		names := slices.Sorted(maps.Keys(actions))
		for range 3 {
			for _, name := range names {
				for range 12 { // of which some expire
					s.now = s.now.Add(interval / 13)
					_, err := full.TryAcquire(t.Context(), 1)
					require.NoError(t, err)
				}
				refused = limited(t, actions[name](t.Context(), limit.New(weak, "name", policy)), "") || refused
				s.now = s.now.Add(interval / 2) // the next call removes what expires
				refused = limited(t, actions["Take"](t.Context(), limit.New(weak, "name", policy)), "") || refused
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
	for name, policy := range policies {
		require.NotEmpty(t, rights[name], name)
		require.False(t, run(policy, rights[name]), name)
		for i, command := range rights[name] {
			used[command] = true
			if command == "PTTL" && name != "FixedWindow" {
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

// TestRedisson_DocumentedRights_AreEnough for the calls of package rratelimiter.
func TestRedisson_DocumentedRights_AreEnough(t *testing.T) {
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
	weak := s.allowed(t, rights, rratelimiter.WithClock(s.clock))
	s.all = rratelimiter.New(s.redis, rratelimiter.WithClock(s.clock))
	for _, r := range []rratelimiter.Rate{
		{Permits: rate, Interval: interval}, {Permits: rate, Interval: interval, KeepAlive: 2 * interval}, {Type: rratelimiter.PerClient, Permits: rate, Interval: interval},
	} {
		for _, before := range states {
			for _, c := range calls(r) {
				s.prepare(t, r, before)
				require.NoError(t, c.do(t.Context(), weak.Limiter("limiter")), "%s, %s", c.name, before)
			}
		}
	}
}
