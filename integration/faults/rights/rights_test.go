// Package rights_test takes one right after the other away from a user of Redis (ACL). A command is refused when a script comes to
// it, so a script can be stopped between its writes: then nothing may have become free that was taken, and what is lost is back
// an interval after the right.
package rights_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// commands are all that the scripts run: those that they name, and those that Expire and ClearExpire hand to them.
func commands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../script.lua")
	require.NoError(t, err)
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

// stage is a server with a limiter as two see it: one who may do all, and one without a right. Both are one client of the limiter's.
type stage struct {
	server *servers.Server
	redis  rueidis.Client // all rights
	id     uuid.UUID
	now    time.Time
	all    *rratelimiter.Client
}

func (s *stage) clock() time.Time { return s.now }

func (s *stage) do(t *testing.T, args ...string) rueidis.RedisMessage {
	t.Helper()
	message, err := s.redis.Do(t.Context(), s.redis.B().Arbitrary(args...).Build()).ToMessage()
	if !rueidis.IsRedisNil(err) {
		require.NoError(t, err, args)
	}
	return message
}

// without gives a client whose user lacks a command, and which needs it.
func (s *stage) without(t *testing.T, command string) *rratelimiter.Client {
	t.Helper()
	s.do(t, "ACL", "SETUSER", "somebody", "reset", "on", ">secret", "~*", "+@all", "-"+strings.ToLower(command))
	redis, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.server.Addr()}, Username: "somebody", Password: "secret", ForceSingleClient: true, DisableCache: true,
	})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	if command == "TIME" {
		return rratelimiter.New(redis, rratelimiter.WithClientID(s.id), rratelimiter.WithServerTime())
	}
	return rratelimiter.New(redis, rratelimiter.WithClientID(s.id), rratelimiter.WithClock(s.clock))
}

// call is one call of somebody who may lack a right for it.
type call struct {
	name string
	do   func(ctx context.Context, l *rratelimiter.Limiter) error

	takes    int64 // at most
	releases int64 // at most
	anew     bool  // nothing is taken afterwards
}

func rateOf(permits int64, l rratelimiter.Rate) rratelimiter.Rate {
	l.Permits = permits
	return l
}

func calls(r rratelimiter.Rate) []call {
	errOf := func(_ any, err error) error { return err }
	keep := rratelimiter.KeepState()
	return []call{
		{name: "TryAcquire", takes: 2, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.TryAcquire(ctx, 2)) }},
		{name: "TryAcquire of all", takes: rate, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.TryAcquire(ctx, rate)) }},
		{name: "Take", takes: 2, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.Take(ctx, 2)) }},
		{name: "Take of all", takes: rate, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.Take(ctx, rate)) }},
		{name: "Acquire", takes: 1, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Acquire(ctx, 1) }},
		{name: "TryAcquireWithin", takes: 1, do: func(ctx context.Context, l *rratelimiter.Limiter) error {
			return errOf(l.TryAcquireWithin(ctx, 1, time.Minute))
		}},
		{name: "Release", releases: 2, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Release(ctx, 2) }},
		{name: "Release of a grant", releases: 3, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Release(ctx, 3) }},
		{name: "Release of all", releases: rate, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Release(ctx, rate) }},
		{name: "AvailablePermits", do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.AvailablePermits(ctx)) }},
		{name: "TrySetRate", do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.TrySetRate(ctx, r)) }},
		{name: "SetRate", anew: true, do: func(ctx context.Context, l *rratelimiter.Limiter) error { return l.SetRate(ctx, r) }},
		{name: "SetRate lower", do: func(ctx context.Context, l *rratelimiter.Limiter) error {
			return l.SetRate(ctx, rateOf(rate-2, r), keep)
		}},
		{name: "SetRate higher", do: func(ctx context.Context, l *rratelimiter.Limiter) error {
			return l.SetRate(ctx, rateOf(rate+5, r), keep)
		}},
		{name: "UpdateRate", do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.UpdateRate(ctx, r, keep)) }},
		{name: "UpdateRate with a keep-alive", do: func(ctx context.Context, l *rratelimiter.Limiter) error {
			r.KeepAlive = 3 * interval
			return errOf(l.UpdateRate(ctx, r, keep))
		}},
		{name: "Expire", do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.Expire(ctx, 2*interval)) }},
		{name: "ExpireAt", do: func(ctx context.Context, l *rratelimiter.Limiter) error {
			return errOf(l.ExpireAt(ctx, time.Now().Add(2*interval)))
		}},
		{name: "ClearExpire", do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.ClearExpire(ctx)) }},
		{name: "ExpireTime", do: func(ctx context.Context, l *rratelimiter.Limiter) error { return errOf(l.ExpireTime(ctx)) }},
		{name: "Copy", do: func(ctx context.Context, l *rratelimiter.Limiter) error {
			return errOf(l.Copy(ctx, "other", rratelimiter.Replace()))
		}},
		{name: "Rename", do: func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Rename(ctx, "other") }},
	}
}

// The states in which a call finds the limiter: 3 and 2 permits are taken, or 4 more that have expired. Of the 5, Redisson
// may have released 4, or 2 more may have been lost.
var states = []string{"taken", "left", "all left", "no value", "no value, left", released, "released, left", lost, "lost, left"}

const (
	released = "released"
	lost     = "lost"
	drifted  = 4 // permits released
	missing  = 2 // permits lost
)

func (s *stage) prepare(t *testing.T, r rratelimiter.Rate, name string) (taken int64) {
	t.Helper()
	s.do(t, "FLUSHALL")
	s.now = time.UnixMilli(time.Now().UnixMilli())
	for _, limiter := range []string{"limiter", "other"} {
		l := s.all.Limiter(limiter)
		require.NoError(t, l.SetRate(t.Context(), r))
		take := func(permits int64) {
			t.Helper()
			ok, err := l.TryAcquire(t.Context(), permits)
			require.NoError(t, err)
			require.True(t, ok)
			s.now = s.now.Add(time.Millisecond)
		}
		if limiter == "other" { // which a Rename or a Copy replaces
			take(rate)
			break
		}
		if strings.Contains(name, "left") {
			take(4)
			if name != "all left" {
				s.now = s.now.Add(interval / 2)
			}
		}
		if name != "all left" {
			take(3)
			take(2)
		}
		if strings.Contains(name, "left") {
			s.now = s.now.Add(interval / 2)
			if name == "all left" {
				s.now = s.now.Add(interval)
			}
		}
		if strings.Contains(name, "no value") {
			k := state.KeysOf("limiter", s.id.String())
			s.do(t, "DEL", k[state.Value], k[state.ClientValue])
		}
		value, permits := state.KeysOf("limiter", s.id.String())[state.Value], int64(0)
		if r.Type == rratelimiter.PerClient {
			value = state.KeysOf("limiter", s.id.String())[state.ClientValue]
		}
		switch {
		case strings.HasPrefix(name, released):
			permits = drifted
		case strings.HasPrefix(name, lost):
			permits = -missing
		}
		if permits != 0 {
			s.do(t, "INCRBY", value, strconv.FormatInt(permits, 10))
		}
	}
	if name == "all left" {
		return 0
	}
	return 5
}

// settled waits until a value that a refused script gave up is gone: a millisecond.
func (s *stage) settled(t *testing.T) {
	t.Helper()
	for _, limiter := range []string{"limiter", "other"} {
		k := state.KeysOf(limiter, s.id.String())
		for _, key := range []string{k[state.Value], k[state.ClientValue]} {
			for {
				reply := s.do(t, "PTTL", key)
				left, err := reply.AsInt64()
				require.NoError(t, err)
				if left < 0 || left > 10 {
					break
				}
			}
		}
	}
}

func (s *stage) free(t *testing.T, name string) (free, permits int64) {
	t.Helper()
	l := s.all.Limiter(name)
	config, err := l.Config(t.Context())
	if errors.Is(err, rratelimiter.ErrNotInitialized) {
		return -1, 0
	}
	require.NoError(t, err)
	free, err = l.AvailablePermits(t.Context())
	require.NoError(t, err)
	return free, config.Permits
}

// Issue 9, point 13.
func TestARightThatIsMissing(t *testing.T) {
	server := servers.Single(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	s := &stage{server: server, redis: redis, id: uuid.New()}
	s.all = rratelimiter.New(redis, rratelimiter.WithClientID(s.id), rratelimiter.WithClock(s.clock))
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
	for _, command := range all {
		limited := s.without(t, command)
		for _, r := range []rratelimiter.Rate{
			{Permits: rate, Interval: interval},
			{Permits: rate, Interval: interval, KeepAlive: 2 * interval},
			{Type: rratelimiter.PerClient, Permits: rate, Interval: interval},
		} {
			// A limiter that has no rate yet.
			s.do(t, "FLUSHALL")
			if _, err := limited.Limiter("limiter").TrySetRate(t.Context(), r); err != nil {
				refused[command]++
				_, err := s.all.Limiter("limiter").TrySetRate(t.Context(), r)
				require.NoError(t, err)
				config, err := s.all.Limiter("limiter").Config(t.Context())
				require.NoError(t, err)
				require.Equal(t, r, config)
			}
			for _, before := range states {
				for _, c := range calls(r) {
					about := fmt.Sprintf("%s without %s, %v, %s", c.name, command, r, before)
					taken := s.prepare(t, r, before)
					err := c.do(t.Context(), limited.Limiter("limiter"))
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
		t.Logf("%-17s refused %s calls", command, strconv.Itoa(refused[command]))
		switch command {
		case "PEXPIRETIME": // an older server lacks it, so that its absence is no error
		case "ZSCORE": // what gives back the permits of a caller that has gone: TestRefund_CommandIsNotPermitted_FreesNothing
		case "ZRANGEBYSCORE", "ZREVRANGEBYSCORE": // of sets of more than a page
		default:
			require.Positive(t, refused[command], "no call uses %s", command)
		}
	}
}

// check looks at the limiters after a call that was refused.
func (s *stage) check(t *testing.T, c call, taken int64, about string) {
	t.Helper()
	name := "limiter"
	free, permits := s.free(t, name)
	other, otherRate := s.free(t, "other")
	if free < 0 {
		// All that was refused is what follows the rename.
		require.Equal(t, "Rename", c.name, about)
		name, free, permits = "other", other, otherRate
		other = 0
	}
	if c.name == "Copy" && other == free {
		other = 0 // likewise
	}
	require.GreaterOrEqual(t, free, int64(0), "%s: the limiter is gone", about)
	most := permits - taken + c.releases
	if c.anew {
		most = permits
	}
	require.LessOrEqual(t, free, max(0, min(permits, most)), "%s: more is free than can be", about)
	require.GreaterOrEqual(t, free, permits-taken-c.takes-c.releases-max(0, rate-permits), "%s: permits are lost", about)
	require.Zero(t, other, "%s: the other limiter, of %d", about, otherRate)

	// The load goes on, so that the set is never empty.
	later := s.now.Add(interval)
	s.now = s.now.Add(interval / 2)
	// Of a new Client, since its first call corrects what the refused call did not.
	l := rratelimiter.New(s.redis, rratelimiter.WithClientID(s.id), rratelimiter.WithClock(s.clock)).Limiter(name)
	n := int64(0)
	if free > 0 {
		ok, err := l.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, ok, about)
		n = 1
	}
	s.now = later
	free, _ = s.free(t, name)
	require.Equal(t, permits-n, free, "%s: an interval later", about)
	ok, err := l.TryAcquire(t.Context(), permits-n)
	require.NoError(t, err)
	require.True(t, ok, about)
	ok, err = l.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, ok, about)
}
