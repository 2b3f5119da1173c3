package oracle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// hash reads a limiter's configuration from the server itself.
func hash(t *testing.T, s *servers.Server, key string) map[string]string {
	t.Helper()
	message, err := s.Do(t.Context(), "HGETALL", key)
	require.NoError(t, err)
	fields, err := message.AsStrMap()
	require.NoError(t, err)
	return fields
}

// release is a running release of Redisson.
type release struct {
	*oracle.Redisson
	server *servers.Server
}

// Each release limits, and answers each call or lacks it.
func TestRedisson_EveryRelease_AnswersEveryCall(t *testing.T) {
	server := servers.Single(t)
	for _, version := range oracle.VersionsToTest() {
		t.Run(version, func(t *testing.T) {
			r := release{oracle.Start(t, version, oracle.Single(server.Addr())), server}
			require.Equal(t, version, r.Version())
			t.Run("Limits", r.limits)
			t.Run("AnswersEveryCall", r.answersEveryCall)
			t.Run("ScriptIsCaptured", r.scriptIsCaptured)
		})
	}
}

func (r *release) limits(t *testing.T) {
	version := r.Version()
	require.Len(t, r.ID(), 36)
	ctx, l := t.Context(), r.Limiter(version)

	_, err := l.TryAcquire(ctx, 1)
	var thrown *oracle.Error
	require.ErrorAs(t, err, &thrown)
	require.Contains(t, thrown.Message, "RateLimiter is not initialized")

	set, err := l.TrySetRate(ctx, oracle.Rate{Permits: 3, Interval: time.Minute})
	require.NoError(t, err)
	require.True(t, set)
	got, err := l.Config(ctx)
	require.NoError(t, err)
	require.Equal(t, oracle.Rate{Type: oracle.Overall, Permits: 3, Interval: time.Minute}, got)
	fields := hash(t, r.server, version)
	require.Equal(t, "3", fields["rate"])
	require.Equal(t, "60000", fields["interval"])
	require.Equal(t, "0", fields["type"])

	for _, want := range []bool{true, true, true, false} {
		granted, err := l.TryAcquire(ctx, 1)
		require.NoError(t, err)
		require.Equal(t, want, granted)
	}
	free, err := l.AvailablePermits(ctx)
	require.NoError(t, err)
	require.Zero(t, free)
}

// Every call reaches Java, or says that the release has none.
func (r *release) answersEveryCall(t *testing.T) {
	version := r.Version()
	ctx, l := t.Context(), r.Limiter("all-"+version)
	rate := oracle.Rate{Type: oracle.PerClient, Permits: 5, Interval: time.Second}
	lasting := rate
	lasting.KeepAlive = time.Minute
	later := time.Now().Add(time.Hour)

	var unsupported []string
	check := func(call string, _ any, err error) {
		if err != nil {
			require.ErrorIs(t, err, oracle.ErrUnsupported, call)
			unsupported = append(unsupported, call)
		}
	}
	no := func(call string, err error) { check(call, nil, err) }
	yes := func(call string) func(any, error) { return func(v any, err error) { check(call, v, err) } }

	no("setRate", l.SetRate(ctx, rate))
	no("setRate keepAlive", l.SetRate(ctx, lasting))
	set, err := r.Limiter("keep-"+version).TrySetRate(ctx, lasting)
	yes("trySetRate keepAlive")(set, err)
	no("setRateArgs", l.SetRateArgs(ctx, lasting, true))
	updated, err := l.UpdateRate(ctx, rate, true)
	yes("updateRate")(updated, err)
	no("acquire", l.Acquire(ctx, 1))
	no("acquireOne", l.AcquireOne(ctx))
	granted, err := l.TryAcquireOne(ctx)
	yes("tryAcquireOne")(granted, err)
	granted, err = l.TryAcquireOneWithin(ctx, time.Second)
	yes("tryAcquireOneWithin")(granted, err)
	granted, err = l.TryAcquireWithin(ctx, 1, time.Second)
	yes("tryAcquireWithin")(granted, err)
	no("release", l.Release(ctx, 1))
	changed, err := l.Expire(ctx, time.Hour)
	yes("expire")(changed, err)
	changed, err = l.ExpireAt(ctx, later)
	yes("expireAt")(changed, err)
	for _, condition := range []oracle.ExpireCondition{
		oracle.ExpireIfSet, oracle.ExpireIfNotSet, oracle.ExpireIfGreater, oracle.ExpireIfLess,
	} {
		changed, err = l.ExpireIf(ctx, condition, time.Hour)
		yes(string(condition))(changed, err)
		changed, err = l.ExpireAtIf(ctx, condition, later)
		yes(string(condition)+" at")(changed, err)
	}
	at, err := l.ExpireTime(ctx)
	yes("getExpireTime")(at, err)
	ttl, err := l.RemainTimeToLive(ctx)
	require.NoError(t, err)
	require.Positive(t, ttl)
	changed, err = l.ClearExpire(ctx)
	yes("clearExpire")(changed, err)
	ttl, err = l.RemainTimeToLive(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -1, ttl)
	touched, err := l.Touch(ctx)
	yes("touch")(touched, err)
	size, err := l.SizeInMemory(ctx)
	require.NoError(t, err)
	require.Positive(t, size)
	copied, err := l.Copy(ctx, "copy-"+version)
	yes("copy")(copied, err)
	copied, err = l.CopyAndReplace(ctx, "copy-"+version)
	yes("copyAndReplace")(copied, err)
	require.NoError(t, l.Rename(ctx, "renamed-"+version))
	renamed, err := r.Limiter("renamed-"+version).RenameNX(ctx, l.Name())
	require.NoError(t, err)
	require.True(t, renamed)
	there, err := l.Exists(ctx)
	require.NoError(t, err)
	require.True(t, there)
	unlinked, err := l.Unlink(ctx)
	require.NoError(t, err)
	require.True(t, unlinked)
	deleted, err := l.Delete(ctx)
	require.NoError(t, err)
	t.Logf("left by unlink and found by delete: %v; unsupported: %q", deleted, unsupported)
	if version == "4.7.0" {
		require.Empty(t, unsupported)
	}
}

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
	r := oracle.Start(t, "4.7.0", oracle.Single(server.Addr()), oracle.WithNamePrefix("p:"))
	l := r.Limiter("crowded")
	_, err := l.TrySetRate(t.Context(), oracle.Rate{Permits: 10, Interval: time.Hour})
	require.NoError(t, err)
	require.Equal(t, "10", hash(t, server, "p:crowded")["rate"])

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
	_, err := oracle.Open(t.Context(), "4.7.0", oracle.Single(server.Addr()), oracle.WithTimeout(time.Second),
		oracle.WithRetryAttempts(0))
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
