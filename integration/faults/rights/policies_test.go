package rights_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
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
	"InFlight":      limit.InFlight{Permits: rate, Lease: interval},
	"Smooth":        limit.Smooth{Permits: rate, Interval: interval, Burst: interval},
}

// policyCommands are those that the scripts of package limit run.
func policyCommands(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../limit/*.lua")
	require.NoError(t, err)
	var all []string
	for _, file := range files {
		text := golden.Text(t, file)
		for _, found := range regexp.MustCompile(`\bcall\('([A-Z]+)'`).FindAllStringSubmatch(text, -1) {
			if file != "../../../limit/redisson.lua" {
				all = append(all, found[1])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// limited reports whether a call was refused for want of a right. No other error is allowed: a
// script that was stopped before must not have left a state that a policy refuses.
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

// pass has time pass, for a window by the clock of the server too, which ends it.
func (s *stage) pass(t *testing.T, policy string, d time.Duration) {
	t.Helper()
	s.now = s.now.Add(d)
	if !slices.Contains([]string{"FixedWindow", "aligned", "Calendar"}, policy) {
		return
	}
	message := s.do(t, "KEYS", "*")
	keys, err := message.AsStrSlice()
	require.NoError(t, err)
	for _, key := range keys {
		message := s.do(t, "PTTL", key)
		left, err := message.AsInt64()
		require.NoError(t, err)
		require.Positive(t, left, "%s has no expiry", key)
		s.do(t, "PEXPIRE", key, strconv.FormatInt(left-d.Milliseconds(), 10)) // which deletes it if that is 0 or less
	}
}

// Some calls lack a right, so that their scripts stop before any of their writes. The others never
// get more than the policy grants, none of them fails, and an interval after the last call all
// permits are free.
func TestPolicies_RightMissingForAMoment_KeepTheLimit(t *testing.T) {
	t.Parallel()
	type grant struct {
		at      time.Time
		permits int64
	}
	// What an interval of the clock may see at most.
	most := map[string]int64{"FixedWindow": 2 * rate, "aligned": 2 * rate, "Calendar": 2 * rate,
		"TokenBucket": 2 * rate, "LeakyBucket": 2 * rate, "SlidingWindow": rate, "SlidingLog": rate}
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
					if d := time.Duration(random.Int64N(int64(interval / 8))); name == "FixedWindow" {
						s.pass(t, name, d)
					} else { // TIME, which ends an aligned window, does not pass
						s.now = s.now.Add(d)
					}
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
				s.pass(t, name, 25*time.Hour)
				ok, err := limit.New(s.all, "name", policies[name]).TryAcquire(t.Context(), rate)
				require.NoError(t, err)
				require.True(t, ok, "%s without %s", name, command)
			}
			t.Logf("%s without %s: %d calls refused", name, command, refused)
		}
	}
}

// A release that stops before a write frees at most the released permits.
func TestPolicies_RightMissingInARelease_FreesNoMore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, command := range policyCommands(t) {
		weak := s.without(t, command)
		for name, policy := range policies {
			if name == "Smooth" || name == "InFlight" {
				continue // one has no count, and the other is not released
			}
			for _, n := range []int64{1, 2, 3, 5, 7} {
				s.do(t, "FLUSHALL")
				s.now = time.Now().Truncate(24 * time.Hour)
				full := limit.New(s.all, "name", policy)
				for _, permits := range []int64{2, 1, 4} {
					s.now = s.now.Add(time.Second)
					require.True(t, redistest.Result(t, full.TryAcquire, permits))
				}
				about := fmt.Sprintf("%s without %s, %d", name, command, n)
				limited(t, limit.New(weak, "name", policy).Release(t.Context(), n), about)
				all, err := full.Peek(t.Context())
				require.NoError(t, err, about)
				require.LessOrEqual(t, all[0].Remaining, 3+n, about)
				require.GreaterOrEqual(t, all[0].Remaining, int64(3), about)
				s.pass(t, name, 24*time.Hour)
				require.True(t, redistest.Result(t, full.TryAcquire, rate), about)
			}
		}
	}
}
