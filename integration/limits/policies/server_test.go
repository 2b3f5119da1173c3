// Package policies tests package limit on a real server.
package policies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Package limit compares its policies with models on miniredis. Here random calls get equal
// Decisions from a real server and from miniredis.
func TestPolicies_RealServer_MatchesMiniredis(t *testing.T) {
	const hour = time.Hour
	for name, policies := range map[string][]limit.Policy{
		"FixedWindow":          {limit.FixedWindow{Permits: 10, Interval: hour}},
		"FixedWindow, aligned": {limit.FixedWindow{Permits: 10, Interval: hour, Aligned: true}},
		"Calendar":             {limit.Calendar{Permits: 10, Unit: limit.Day}},
		"SlidingWindow":        {limit.SlidingWindow{Permits: 10, Interval: hour}},
		"SlidingLog":           {limit.SlidingLog{Permits: 10, Interval: hour}},
		"SlidingLog, many":     {limit.SlidingLog{Permits: 2000, Interval: hour}},
		"TokenBucket":          {limit.TokenBucket{Capacity: 20, Refill: 7, Interval: hour}},
		"LeakyBucket":          {limit.LeakyBucket{Capacity: 20, Leak: 7, Interval: hour}},
		"Smooth":               {limit.Smooth{Permits: 7, Interval: hour, Burst: hour}},
		"Smooth, warming up":   {limit.Smooth{Permits: 7, Interval: hour, WarmUp: 3 * hour}},
		"two windows, a bucket": {limit.FixedWindow{Permits: 5, Interval: hour},
			limit.FixedWindow{Permits: 20, Interval: 7 * hour},
			limit.TokenBucket{Capacity: 20, Refill: 4, Interval: hour}},
		"InFlight":         {limit.InFlight{Permits: 10, Lease: hour}},
		"a window, places": {limit.FixedWindow{Permits: 20, Interval: hour}, limit.InFlight{Permits: 10, Lease: hour / 3}},
		"a log, cells, a smooth": {limit.SlidingLog{Permits: 9, Interval: hour},
			limit.SlidingWindow{Permits: 12, Interval: 2 * hour}, limit.Smooth{Permits: 9, Interval: hour}},
		"all windows": all(func(d time.Duration) limit.Policy { return limit.FixedWindow{Permits: 10, Interval: d} }),
		"all units": all(func(d time.Duration) limit.Policy {
			return limit.Calendar{Permits: 10, Unit: limit.Year, In: time.FixedZone(d.String(), 0)}
		}),
		"all cells": all(func(d time.Duration) limit.Policy { return limit.SlidingWindow{Permits: 10, Interval: d} }),
		"all logs":  all(func(d time.Duration) limit.Policy { return limit.SlidingLog{Permits: 10, Interval: d} }),
		"all buckets": all(func(d time.Duration) limit.Policy {
			return limit.TokenBucket{Capacity: 20, Refill: 7, Interval: d}
		}),
		"all smooth": all(func(d time.Duration) limit.Policy { return limit.Smooth{Permits: 7, Interval: d} }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clocked.Start(t)
			memory := miniredis.RunT(t)
			conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{memory.Addr()}, DisableCache: true,
				ForceSingleClient: true})
			other := rratelimiter.New(conn, rratelimiter.WithClock(s.Clock))
			real, reference := limit.New(s.Client, "name", policies...), limit.New(other, "name", policies...)
			var keys []string // of states that the clock of the Client ends
			for _, p := range policies {
				if d, _ := policy.Of(p); !isWindow(p) {
					keys = append(keys, "{name}:"+d.Key)
				}
			}
			random := rand.New(rand.NewPCG(7, 8))
			ctx := context.Background()
			for step := range env.Number("POLICY_STEPS", 250) {
				if random.IntN(3) == 0 {
					s.Now = s.Now.Add(time.Duration(random.Int64N(int64(hour) / 2)))
				}
				n := 1 + random.Int64N(5)
				var want, got any
				var wantErr, err error
				switch random.IntN(12) {
				case 0:
					want, wantErr = reference.Charge(ctx, n)
					got, err = real.Charge(ctx, n)
				case 1:
					wantErr, err = reference.Release(ctx, n), real.Release(ctx, n)
				case 2:
					want, wantErr = reference.Peek(ctx)
					got, err = real.Peek(ctx)
				default:
					want, wantErr = reference.TakeEach(ctx, n)
					got, err = real.TakeEach(ctx, n)
				}
				if errors.Is(wantErr, limit.ErrNotChargeable) || errors.Is(wantErr, limit.ErrNotReleasable) {
					require.EqualError(t, err, wantErr.Error())
					continue
				}
				require.NoError(t, wantErr, "step %d", step)
				require.NoError(t, err, "step %d", step)
				if slices.ContainsFunc(policies, isWindow) {
					got = nearTimes(want, got)
				}
				require.Equal(t, want, got, "step %d", step)
				s.Persist(t, keys...)
			}
			require.NoError(t, real.Reset(ctx))
			left, err := s.Redis.Do(ctx, s.Redis.B().Keys().Pattern("*").Build()).AsStrSlice()
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestPause_Server_EndsByItsClock(t *testing.T) {
	const rest = 2 * time.Second
	s := clocked.Start(t)
	policies := []limit.Policy{limit.FixedWindow{Permits: 10, Interval: time.Hour}, limit.Pause{Most: time.Hour}}
	l := limit.New(s.Client, "name", policies...)
	begin := time.Now()
	require.NoError(t, l.Pause(t.Context(), rest))
	require.NoError(t, l.Pause(t.Context(), rest/2), "a longer pause stays")
	d := redistest.Result(t, l.Take, 1)
	assert.False(t, d.Allowed)
	assert.InDelta(t, rest, d.RetryAfter, float64(rest/2)-1)
	s.Now = s.Now.Add(time.Hour) // the Client's clock has no effect
	require.NoError(t, l.Acquire(t.Context(), 1))
	assert.Greater(t, time.Since(begin), rest-time.Millisecond)
	require.NoError(t, l.Pause(t.Context(), time.Hour))
	assert.InDelta(t, time.Hour, redistest.Result(t, l.TakeEach, 1)[1].RetryAfter, float64(time.Minute))
	require.NoError(t, l.Pause(t.Context(), 0))
	assert.True(t, redistest.Result(t, l.TryAcquire, 1))
}

// TestPenalty_RealServer_EndsByItsClock: its rest is the time to live of its key.
func TestPenalty_RealServer_EndsByItsClock(t *testing.T) {
	s := clocked.Start(t)
	l := limit.New(s.Client, "name", limit.SlidingLog{Permits: 1, Interval: time.Hour},
		limit.Penalty{Denials: 3, Within: time.Hour, For: 2 * time.Hour})
	for range 4 {
		require.NoError(t, redistest.Err(l.TryAcquire(t.Context(), 1)))
	}
	s.Now = s.Now.Add(90 * time.Minute)
	each := redistest.Result(t, l.TakeEach, 1)
	assert.True(t, each[0].Allowed)
	assert.InDelta(t, 2*time.Hour, each[1].RetryAfter, float64(time.Minute))
	require.NoError(t, l.Pause(t.Context(), 0))
	assert.True(t, redistest.Result(t, l.TryAcquire, 1))
}

// isWindow reports whether the clock of the server ends the windows of a policy. That of miniredis stands still.
func isWindow(p limit.Policy) bool {
	switch p.(type) {
	case limit.FixedWindow, limit.Calendar:
		return true
	}
	return false
}

// nearTimes returns got with the times of want, where they differ by less than ten minutes. Those of a window are by
// the clock of its server: that of a real one goes on for the seconds of a test, and cannot be set. TestFixedWindow
// tests of package limit compare exact times, on a clock of Redis that they set.
func nearTimes(want, got any) any {
	near := func(want, got time.Duration) time.Duration {
		if (want > 0) == (got > 0) && (want-got).Abs() < 10*time.Minute {
			return want
		}
		return got
	}
	one := func(want, got rratelimiter.Decision) rratelimiter.Decision {
		got.RetryAfter, got.ResetAfter = near(want.RetryAfter, got.RetryAfter), near(want.ResetAfter, got.ResetAfter)
		return got
	}
	switch want := want.(type) {
	case rratelimiter.Decision:
		return one(want, got.(rratelimiter.Decision))
	case []rratelimiter.Decision:
		all := slices.Clone(got.([]rratelimiter.Decision))
		for i := range min(len(want), len(all)) {
			all[i] = one(want[i], all[i])
		}
		return all
	}
	return got
}

// most is how many policies a limiter may have. A Lua function has a limited number of local variables.
const most = 10

// all returns as many policies of one kind as a limiter may have.
func all(kind func(interval time.Duration) limit.Policy) (policies []limit.Policy) {
	for n := range most {
		policies = append(policies, kind(time.Duration(n+1)*time.Hour))
	}
	return policies
}

// So many of Redisson's limiters fit one script, too.
func TestJoin_MostRedissonLimiters_FitOneScript(t *testing.T) {
	s := clocked.Start(t)
	var quotas []limit.Joinable
	for i := range most {
		quota := s.Client.Limiter(fmt.Sprint("quota:", i))
		require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
		quotas = append(quotas, quota)
	}
	for _, d := range redistest.Result(t, limit.Join(quotas...).TakeEach, 2) {
		assert.EqualValues(t, 3, d.Remaining)
	}
}
