package oracle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
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

	start := time.Now().Truncate(time.Microsecond)
	got, err := l.Crowd(t.Context(), oracle.Crowd{Threads: 4, Duration: 500 * time.Millisecond, Permits: 3})
	require.NoError(t, err)
	require.Len(t, got.Grants, 3)
	for _, g := range got.Grants {
		require.EqualValues(t, 3, g.Permits)
		require.False(t, g.Start.Before(start), "%v is before %v", g.Start, start)
		require.False(t, g.End.Before(g.Start))
	}
	require.Positive(t, got.Denials)
	require.Empty(t, got.Errors)

	got, err = r.Limiter("nothing").Crowd(t.Context(),
		oracle.Crowd{Threads: 2, Duration: 200 * time.Millisecond, Permits: 1, AcquireTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	require.Empty(t, got.Grants)
	require.Len(t, got.Errors, 1, "equal errors are counted together")
	for message, count := range got.Errors {
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

func TestOpen_NoServer_Fails(t *testing.T) {
	server := servers.Single(t)
	require.NoError(t, server.Kill())
	_, err := oracle.Open(t.Context(), "4.7.0", oracle.Single(server.Addr()),
		oracle.WithTimeout(10*time.Second), oracle.WithRetryAttempts(0))
	require.ErrorIs(t, err, oracle.ErrEnded)
	require.ErrorContains(t, err, "Unable to connect")
}

func TestOpen_UnknownRelease_Fails(t *testing.T) {
	_, err := oracle.Open(t.Context(), "../4.7.0", oracle.Single("127.0.0.1:1"))
	require.ErrorContains(t, err, "no version of Redisson")
}

func TestVersionsToTest_Variable_IsParsed(t *testing.T) {
	t.Setenv("REDISSON_VERSIONS", " 3.16.8, 4.0.0 ,")
	require.Equal(t, []string{"3.16.8", "4.0.0"}, oracle.VersionsToTest())
	t.Setenv("REDISSON_VERSIONS", "")
	require.Equal(t, []string{"4.7.0", "3.38.1", "3.20.1"}, oracle.VersionsToTest())
}
