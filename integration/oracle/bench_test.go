package oracle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/oracle"
	"github.com/rratelimiter/rratelimiter/integration/servers"
)

func TestBench(t *testing.T) {
	server := servers.Single(t)
	r := oracle.Start(t, "4.7.0", oracle.Single(server.Addr()), oracle.WithDefaultPools())
	for _, name := range []string{"bench-0", "bench-1"} {
		require.NoError(t, r.Limiter(name).SetRate(t.Context(), oracle.Rate{Permits: 10, Interval: time.Hour}))
	}
	load := oracle.Bench{Limiters: 2, Callers: 4, Permits: 2, Duration: 300 * time.Millisecond}
	for _, async := range []bool{false, true} {
		load.Async = async
		got, err := r.Limiter("bench-").Bench(t.Context(), load)
		require.NoError(t, err)
		require.NoError(t, got.Err)
		require.Zero(t, got.Failed)
		want := int64(10) // of two limiters, which the first load exhausts
		if async {
			want = 0
		}
		require.Equal(t, want, got.Granted)
		require.Greater(t, got.Decisions, got.Granted)
		require.GreaterOrEqual(t, got.Elapsed, load.Duration)
		require.Positive(t, got.CPU)
		var counted int64
		for _, n := range got.Latencies {
			counted += int64(n)
		}
		require.Equal(t, got.Decisions, counted, "every call's latency is counted")
	}

	load.Limiters = 3
	got, err := r.Limiter("bench-").Bench(t.Context(), load)
	require.NoError(t, err)
	require.Positive(t, got.Failed)
	require.ErrorContains(t, got.Err, "RateLimiter is not initialized")
}
