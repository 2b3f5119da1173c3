package strict_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// All callers switch to a policy with fewer permits for the same name, and later to one with more.
// Permits taken before still count. No caller gets more than its own policy grants, and no call
// fails.
func TestPolicies_PolicyChanged_TakenPermitsCount(t *testing.T) {
	server := servers.Single(t)
	for name, test := range map[string]struct {
		ways     []way
		policy   func(permits int64) limit.Policy
		above    check // of each policy by itself, whatever the others granted
		refilled bool
	}{
		"FixedWindow": {waiting, func(n int64) limit.Policy {
			return limit.FixedWindow{Permits: n, Interval: interval}
		}, inEveryWindow(interval, false), false},
		"FixedWindow, aligned": {waiting, func(n int64) limit.Policy {
			return limit.FixedWindow{Permits: n, Interval: interval, Aligned: true}
		}, inEveryWindow(interval, true), false},
		"SlidingWindow": {waiting, func(n int64) limit.Policy {
			return limit.SlidingWindow{Permits: n, Interval: interval}
		}, inEveryInterval, false},
		"SlidingLog": {waiting, func(n int64) limit.Policy {
			return limit.SlidingLog{Permits: n, Interval: interval}
		}, inEveryInterval, false},
		"TokenBucket": {notWaiting, func(n int64) limit.Policy {
			return limit.TokenBucket{Capacity: n, Refill: 400, Interval: interval}
		}, inEveryStretch(400), true},
		"LeakyBucket": {notWaiting, func(n int64) limit.Policy {
			return limit.LeakyBucket{Capacity: n, Leak: 400, Interval: interval}
		}, inEveryStretch(400), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, server, nil)
			var stages [][]*limit.Limiter
			for _, n := range []int64{200, 50, 120} {
				stages = append(stages, s.open(test.policy(n)))
			}
			require.NoError(t, stages[0][0].Reset(t.Context()))
			whole, begun := 3*length, time.Now()
			grants := s.crowd(whole, func() []*limit.Limiter {
				return stages[min(2, int(3*time.Since(begun)/whole))]
			}, test.ways...)
			for _, n := range []int64{200, 50, 120} {
				above := test.above(by(grants, n))
				assert.LessOrEqual(t, above, 0.0, "permits too many, by the policy of %d", n)
				if !test.refilled { // the next policy finds a refilled one nearly empty
					assert.Greater(t, above, -1.0, "one too many by the policy of %d would not have been seen", n)
				}
			}
		})
	}
}

// by returns the grants with the limit of one policy, and no limit for the grants of the others.
func by(grants []grant, permits int64) []grant {
	all := slices.Clone(grants)
	for i := range all {
		if all[i].limit != permits {
			all[i].limit = math.MaxInt32
		}
	}
	return all
}

// The quota of the day is raised and then lowered below the taken permits.
func TestCalendar_QuotaChanged_TakenPermitsCount(t *testing.T) {
	noon := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	s := newScene(t, servers.Single(t), func() time.Time { return noon })
	var stages [][]*limit.Limiter
	for _, n := range []int64{50, 200, 120} {
		stages = append(stages, s.open(limit.Calendar{Permits: n, Unit: limit.Day}))
	}
	grants := s.crowd(2*length, func() []*limit.Limiter {
		switch taken := s.granted.Load(); {
		case taken < 50:
			return stages[0]
		case taken < 200:
			return stages[1]
		default:
			return stages[2]
		}
	}, notWaiting...)
	held := make(map[int64]int64)
	for _, g := range grants {
		held[g.limit] += g.permits
	}
	assert.Equal(t, map[int64]int64{50: 50, 200: 150}, held)
}

// From the first call with the slower policy, all grants are paid for at its pace.
func TestSmooth_PaceChanged_GrantsArePaidFor(t *testing.T) {
	fast, slow := limit.Smooth{Permits: 200, Interval: interval, Burst: interval / 2}, limit.Smooth{Permits: 50,
		Interval: interval, Burst: interval / 2}
	s := newScene(t, servers.Single(t), nil)
	before, after := s.open(fast), s.open(slow)
	whole, begun := 2*length, time.Now()
	grants := s.crowd(whole, func() []*limit.Limiter {
		if time.Since(begun) < whole/3 {
			return before
		}
		return after
	}, waiting...)
	var fastOnes, slowOnes []grant
	for _, g := range grants {
		if g.limit == 1000 { // microseconds a permit
			fastOnes = append(fastOnes, g)
		} else {
			slowOnes = append(slowOnes, g)
		}
	}
	full(t, paid(fastOnes, fast.Permits/2, time.Millisecond))
	require.Greater(t, len(slowOnes), 20)
	assert.LessOrEqual(t, paid(slowOnes, slow.Permits/2, 4*time.Millisecond), 1e-6)
}
