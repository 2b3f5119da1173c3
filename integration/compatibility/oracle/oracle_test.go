package oracle_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func TestRedisson_SlowCall_DelaysNoOther(t *testing.T) {
	server := servers.Single(t)
	r := oracle.Start(t, "4.7.0", oracle.Single(server.Addr()))
	l := r.Limiter("slow")
	_, err := l.TrySetRate(t.Context(), oracle.Rate{Permits: 1, Interval: time.Hour})
	require.NoError(t, err)
	require.NoError(t, l.Acquire(t.Context(), 1))

	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- l.Acquire(ctx, 1) }()
	granted, err := l.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, granted)
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
}

func TestCrowd_Threads_ReportGrantsAndErrors(t *testing.T) {
	server := servers.Single(t)
	r := oracle.Start(t, "4.7.0", oracle.Single(server.Addr()))
	l := r.Limiter("crowded")
	_, err := l.TrySetRate(t.Context(), oracle.Rate{Permits: 10, Interval: time.Hour})
	require.NoError(t, err)

	start, book := time.Now().Truncate(time.Microsecond), ledger.New(nil)
	require.NoError(t, l.Crowd(t.Context(), oracle.Crowd{Threads: 4, Duration: 500 * time.Millisecond, Permits: 3}, book))
	require.Len(t, book.Grants(), 3)
	for _, g := range book.Grants() {
		require.EqualValues(t, 3, g.Permits)
		require.False(t, g.Start.Before(start), "%v is before %v", g.Start, start)
		require.False(t, g.End.Before(g.Start))
	}
	require.Positive(t, book.Denials())
	require.Empty(t, book.Errors())

	book = ledger.New(error.Error)
	require.NoError(t, r.Limiter("nothing").Crowd(t.Context(),
		oracle.Crowd{Threads: 2, Duration: 200 * time.Millisecond, Permits: 1, AcquireTimeout: 50 * time.Millisecond}, book))
	require.Empty(t, book.Grants())
	require.Len(t, book.Errors(), 1, "equal errors are counted together")
	for message, count := range book.Errors() {
		require.Contains(t, message, "RateLimiter is not initialized")
		require.Greater(t, count, int64(2))
	}
}

func TestRedisson_Killed_FailsItsCalls(t *testing.T) {
	server := servers.Single(t)
	r, err := oracle.Open(t.Context(), "4.7.0", oracle.Single(server.Addr()))
	require.NoError(t, err)
	l := r.Limiter("cut")
	require.NoError(t, l.SetRate(t.Context(), oracle.Rate{Permits: 1, Interval: time.Hour}))
	require.NoError(t, l.Acquire(t.Context(), 1))
	waited := make(chan error, 1)
	go func() { waited <- l.Acquire(t.Context(), 1) }()
	r.Kill()
	require.ErrorIs(t, <-waited, oracle.ErrEnded)
	require.ErrorIs(t, l.Acquire(t.Context(), 1), oracle.ErrEnded)
	r.Close()
	r.Close()
}

func TestVersionsToTest_Variable_IsParsed(t *testing.T) {
	t.Setenv("REDISSON_VERSIONS", " 3.20.1, 4.0.0 ,")
	require.Equal(t, []string{"3.20.1", "4.0.0"}, oracle.VersionsToTest())
	t.Setenv("REDISSON_VERSIONS", "")
	require.Equal(t, []string{"4.7.0", "3.38.1", "3.20.1"}, oracle.VersionsToTest())
}

// The captured acquire script takes permits again when it runs with its own keys and arguments.
func TestCaptureScript_TryAcquire_CanBeReplayed(t *testing.T) {
	server := servers.Single(t)
	l := oracle.Start(t, "4.7.0", oracle.Single(server.Addr())).Limiter("captured")
	_, err := l.TrySetRate(t.Context(), oracle.Rate{Permits: 10, Interval: time.Hour})
	require.NoError(t, err)
	// Twice: the second time the client believes that the server has the script.
	for range 2 {
		script, keys, args := oracle.CaptureScript(t, server.Addr(), func() {
			granted, err := l.TryAcquire(t.Context(), 2)
			assert.NoError(t, err)
			assert.True(t, granted)
		})
		require.NotEmpty(t, script)
		require.Len(t, keys, 5)
		require.Equal(t, l.Name(), keys[0])
		require.Equal(t, "2", args[0])
		require.Greater(t, len(args), 2)
		require.Contains(t, []int{8, 16}, len(args[2]), "the random bytes")

		eval := append([]string{"EVAL", script, strconv.Itoa(len(keys))}, append(keys, args...)...)
		_, err = server.Do(t.Context(), eval...)
		// A grant replies nil, which rueidis returns as an error.
		require.True(t, rueidis.IsRedisNil(err), "%v", err)
	}
	free, err := l.AvailablePermits(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, free)
}

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
		l := r.Limiter("bench-")
		require.NoError(t, l.StartBench(t.Context(), load))
		require.NoError(t, l.CountBench(t.Context(), counted))
		got, err := l.StopBench(t.Context())
		require.NoError(t, err)
		return got
	}
	for _, async := range []bool{false, true} {
		load.Async = async
		got := run()
		require.Empty(t, got.Error)
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
	require.Contains(t, got.Error, "RateLimiter is not initialized")
}

// Thousands of threads start slowly. They call from the start, but nothing counts before Count.
func countsNothing(t *testing.T, r *oracle.Redisson) {
	one := r.Limiter("late-0")
	require.NoError(t, one.SetRate(t.Context(), oracle.Rate{Permits: 1, Interval: time.Hour}))
	late := r.Limiter("late-")
	require.NoError(t, late.StartBench(t.Context(), oracle.Bench{Limiters: 1, Callers: 2048, Permits: 1}))
	require.Eventually(t, func() bool {
		free, err := one.AvailablePermits(t.Context())
		return err == nil && free == 0
	}, time.Minute, time.Millisecond)
	got, err := late.StopBench(t.Context())
	require.NoError(t, err)
	require.Empty(t, got.Error)
	require.EqualValues(t, 1, got.AllGranted)
	require.Zero(t, got.Decisions)
	_, err = late.StopBench(t.Context())
	require.ErrorContains(t, err, "no benchmark of late- is running")
}
