package oracle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func TestBench(t *testing.T) {
	server := servers.Single(t)
	r := oracle.Start(t, "4.7.0", oracle.Single(server.Addr()), oracle.WithDefaultPools())
	t.Run("Counts", func(t *testing.T) { counts(t, r) })
	t.Run("CountsNothingBeforeCount", func(t *testing.T) { countsNothing(t, r) })
}

func counts(t *testing.T, r *oracle.Redisson) {
	for _, name := range []string{"bench-0", "bench-1"} {
		require.NoError(t, r.Limiter(name).SetRate(t.Context(), oracle.Rate{Permits: 10, Interval: time.Hour}))
	}
	load := oracle.Bench{Limiters: 2, Callers: 4, Permits: 2}
	const counted = 300 * time.Millisecond
	run := func() oracle.BenchResult {
		running, err := r.Limiter("bench-").StartBench(t.Context(), load)
		require.NoError(t, err)
		require.NoError(t, running.Count(t.Context(), counted))
		got, err := running.Stop(t.Context())
		require.NoError(t, err)
		return got
	}
	for _, async := range []bool{false, true} {
		load.Async = async
		got := run()
		require.NoError(t, got.Err)
		require.Zero(t, got.Failed)
		want := int64(10) // of two limiters, which the first load exhausts
		if async {
			want = 0
		}
		require.Equal(t, want, got.AllGranted)
		require.LessOrEqual(t, got.Granted, want)
		require.Greater(t, got.Decisions, got.Granted)
		require.GreaterOrEqual(t, got.Elapsed, counted)
		require.Positive(t, got.CPU)
		var timed int64
		for _, n := range got.Latencies {
			timed += int64(n)
		}
		require.Equal(t, got.Decisions, timed, "every call's latency is counted")
	}

	load.Limiters = 3
	got := run()
	require.Positive(t, got.Failed)
	require.ErrorContains(t, got.Err, "RateLimiter is not initialized")
}

// Thousands of threads start slowly. They call from the start, but nothing counts before Count.
func countsNothing(t *testing.T, r *oracle.Redisson) {
	one := r.Limiter("late-0")
	require.NoError(t, one.SetRate(t.Context(), oracle.Rate{Permits: 1, Interval: time.Hour}))
	running, err := r.Limiter("late-").StartBench(t.Context(), oracle.Bench{Limiters: 1, Callers: 2048, Permits: 1})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		free, err := one.AvailablePermits(t.Context())
		return err == nil && free == 0
	}, time.Minute, time.Millisecond)
	got, err := running.Stop(t.Context())
	require.NoError(t, err)
	require.NoError(t, got.Err)
	require.EqualValues(t, 1, got.AllGranted)
	require.Zero(t, got.Decisions)
	_, err = running.Stop(t.Context())
	require.ErrorContains(t, err, "no benchmark of late- is running")
}
