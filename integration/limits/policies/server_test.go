// Package policies tests package limit on real servers: replies, lifetimes and sizes of keys, and a
// cluster.
package policies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
		"a window, a pause": {limit.FixedWindow{Permits: 10, Interval: hour}, limit.Pause{Most: hour}},
		"a log, cells, a smooth": {limit.SlidingLog{Permits: 9, Interval: hour},
			limit.SlidingWindow{Permits: 12, Interval: 2 * hour}, limit.Smooth{Permits: 9, Interval: hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clocked.Start(t)
			memory := miniredis.RunT(t)
			conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{memory.Addr()}, DisableCache: true,
				ForceSingleClient: true})
			other := rratelimiter.New(conn, rratelimiter.WithClock(s.Clock))
			real, reference := limit.New(s.Client, "name", policies...), limit.New(other, "name", policies...)
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
				case 3:
					d := time.Duration(random.Int64N(int64(hour)))
					if random.IntN(3) == 0 {
						d = 0
					}
					if wantErr = reference.Pause(ctx, d); !errors.Is(wantErr, limit.ErrNotPausable) {
						err = real.Pause(ctx, d)
					} else {
						wantErr = nil
					}
				default:
					want, wantErr = reference.TakeEach(ctx, n)
					got, err = real.TakeEach(ctx, n)
				}
				require.NoError(t, wantErr, "step %d", step)
				require.NoError(t, err, "step %d", step)
				require.Equal(t, want, got, "step %d", step)
			}
			require.NoError(t, real.Reset(ctx))
			keys, err := s.Redis.Do(ctx, s.Redis.B().Keys().Pattern("*").Build()).AsStrSlice()
			require.NoError(t, err)
			assert.Empty(t, keys)
		})
	}
}

// A Lua function has a limited number of local variables.
func TestNew_MostPolicies_FitOneScript(t *testing.T) {
	const most = 10
	s := clocked.Start(t)
	for i, kind := range []func(time.Duration) limit.Policy{
		func(d time.Duration) limit.Policy { return limit.FixedWindow{Permits: 5, Interval: d} },
		func(d time.Duration) limit.Policy {
			return limit.Calendar{Permits: 5, Unit: limit.Year, In: time.FixedZone(d.String(), 0)}
		},
		func(d time.Duration) limit.Policy { return limit.SlidingWindow{Permits: 5, Interval: d} },
		func(d time.Duration) limit.Policy { return limit.SlidingLog{Permits: 5, Interval: d} },
		func(d time.Duration) limit.Policy { return limit.TokenBucket{Capacity: 5, Refill: 1, Interval: d} },
		func(d time.Duration) limit.Policy { return limit.LeakyBucket{Capacity: 5, Leak: 1, Interval: d} },
		func(d time.Duration) limit.Policy { return limit.Smooth{Permits: 1, Interval: d, Burst: 5 * d} },
	} {
		var policies []limit.Policy
		for n := range most {
			policies = append(policies, kind(time.Duration(n+1)*time.Hour))
		}
		l := limit.New(s.Client, fmt.Sprint(i), policies...)
		_, err := l.Charge(t.Context(), 1)
		require.NoError(t, err, "%T", policies[0])
		each, err := l.TakeEach(t.Context(), 1)
		require.NoError(t, err, "%T", policies[0])
		for _, d := range each {
			assert.EqualValues(t, 3, d.Remaining, "%T", policies[0])
		}
		require.NoError(t, l.Release(t.Context(), 1), "%T", policies[0])
		_, err = limit.New(s.Client, fmt.Sprint(i), append(policies, kind(100*time.Hour))...).Take(t.Context(), 1)
		require.ErrorIs(t, err, rratelimiter.ErrInvalidRate, "no more than %d", most)
	}
	var quotas []limit.Joinable
	for i := range most {
		quota := s.Client.Limiter(fmt.Sprint("quota:", i))
		require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
		quotas = append(quotas, quota)
	}
	each, err := limit.Join(quotas...).TakeEach(t.Context(), 2)
	require.NoError(t, err)
	for _, d := range each {
		assert.EqualValues(t, 3, d.Remaining)
	}
}

// Keys expire on the host's clock and on the server's.
func TestPolicies_NothingTaken_KeysExpire(t *testing.T) {
	server := servers.Single(t)
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	for name, client := range map[string]*rratelimiter.Client{"host": rratelimiter.New(conn),
		"server": rratelimiter.New(conn, rratelimiter.WithServerTime())} {
		const d = 300 * time.Millisecond
		var last time.Time
		for i, p := range []limit.Policy{
			limit.FixedWindow{Permits: 3, Interval: d}, limit.SlidingWindow{Permits: 3, Interval: d},
			limit.SlidingLog{Permits: 3, Interval: d}, limit.TokenBucket{Capacity: 3, Refill: 3, Interval: d},
			limit.LeakyBucket{Capacity: 3, Leak: 3, Interval: d}, limit.Smooth{Permits: 3, Interval: d, Burst: d},
		} {
			decision, err := limit.New(client, fmt.Sprint(name, i), p).Take(t.Context(), 3)
			require.NoError(t, err)
			require.True(t, decision.Allowed)
			last = time.Now().Add(decision.ResetAfter)
		}
		keys := func() []string {
			all, err := conn.Do(t.Context(), conn.B().Keys().Pattern("*").Build()).AsStrSlice()
			require.NoError(t, err)
			return all
		}
		assert.Len(t, keys(), 6, "one of each policy")
		time.Sleep(time.Until(last) + 100*time.Millisecond) // a cell of SlidingWindow, and some
		assert.Empty(t, keys(), name)
	}
}

// The keys of a limiter share a slot. A Join across slots is rejected before anything is sent.
func TestPolicies_Cluster_KeysShareASlot(t *testing.T) {
	cluster := servers.NewCluster(t)
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
	client := rratelimiter.New(conn)
	ctx := t.Context()
	window := limit.FixedWindow{Permits: 10, Interval: time.Hour}
	bucket := limit.TokenBucket{Capacity: 5, Refill: 1, Interval: time.Hour}
	for i := range 30 {
		l := limit.New(client, fmt.Sprint("user:", i), window, bucket)
		d, err := l.Take(ctx, 2)
		require.NoError(t, err)
		assert.Equal(t, rratelimiter.Decision{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: 2 * time.Hour}, d)
	}
	quota := client.Limiter("{tenant}:quota")
	require.NoError(t, quota.SetRate(ctx, rratelimiter.Rate{Permits: 4, Interval: time.Hour}))
	both := limit.Join(limit.New(client, "{tenant}:a", window), quota)
	for _, want := range []bool{true, false} {
		ok, err := both.TryAcquire(ctx, 3)
		require.NoError(t, err)
		assert.Equal(t, want, ok)
	}
	_, err := limit.Join(limit.New(client, "a", window), limit.New(client, "b", window)).TryAcquire(ctx, 1)
	require.ErrorIs(t, err, rratelimiter.ErrCrossSlot)
	seen, err := limit.New(client, "a", window).Peek(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 10, seen[0].Remaining)
}
