package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A thousand limiters, one in each thousandth of the slots, so that each master serves some. On
// each, Go and Java take turns with every call.
func TestCalls_NamesInEverySlotRange_GoAndJavaAgree(t *testing.T) {
	const names, workers = 1000, 8
	sayWhatIsLacking(t)
	spread := namesInEverySlotRange(t, names)
	for worker := range workers {
		t.Run(fmt.Sprintf("worker%d", worker), func(t *testing.T) {
			t.Parallel()
			for i := worker; i < names; i += workers {
				everyCall(t, spread[i], rratelimiter.Overall)
			}
		})
	}
}

func TestCalls_HashTags_GoAndJavaAgree(t *testing.T) {
	sayWhatIsLacking(t)
	for _, name := range []string{"{tenant7}:second", "{tenant7}:minute", "api:{tenant8}", "{a}{b}", "{a}}",
		"{user 1}:ü", "a{b}c{"} {
		everyCall(t, name, rratelimiter.Overall)
		everyCall(t, name, rratelimiter.PerClient)
	}
}

func TestCalls_PerClient_GoAndJavaAgree(t *testing.T) {
	sayWhatIsLacking(t)
	for _, name := range namesInEverySlotRange(t, 50) {
		everyCall(t, name, rratelimiter.PerClient)
	}
}

// namesInEverySlotRange finds n names, one in each n-th part of the slots.
func namesInEverySlotRange(t *testing.T, n int) []string {
	t.Helper()
	const slots = 16384
	found := make([]string, n)
	missing := n
	for start := 0; missing > 0; start += 4096 {
		candidates := make([]string, 4096)
		for i := range candidates {
			candidates[i] = fmt.Sprintf("user:%d", start+i)
		}
		for i, slot := range slotsOf(t, candidates...) {
			if part := int(slot) * n / slots; found[part] == "" {
				found[part] = candidates[i]
				missing--
			}
		}
	}
	return found
}

// sayWhatIsLacking logs which calls everyCall sees refused by the server.
func sayWhatIsLacking(t *testing.T) {
	t.Helper()
	version.Lacks(t, servers.ExpireCondition)
	version.Lacks(t, servers.ExpireTime)
}

// everyCall tells the life of one limiter, from its first rate to its end, in which Go and Java
// take turns: each sees what the other has done. Of a PerClient limiter each has permits of its
// own, so there each counts its own.
func everyCall(t *testing.T, name string, kind rratelimiter.RateType) {
	t.Helper()
	ctx := t.Context()
	l, java := client.Limiter(name), redisson.Limiter(name)
	perClient := kind == rratelimiter.PerClient
	javaKind := oracle.RateType(kind.String())
	shared := func(together, alone int64) int64 {
		if perClient {
			return alone
		}
		return together
	}
	yes := func(who string) func(bool, error) {
		return func(got bool, err error) {
			t.Helper()
			require.NoError(t, err, "%s, %q", who, name)
			require.True(t, got, "%s, %q", who, name)
		}
	}
	no := func(who string) func(bool, error) {
		return func(got bool, err error) {
			t.Helper()
			require.NoError(t, err, "%s, %q", who, name)
			require.False(t, got, "%s, %q", who, name)
		}
	}
	free := func(wantGo, wantJava int64) {
		t.Helper()
		got, err := l.AvailablePermits(ctx)
		require.NoError(t, err, name)
		require.Equal(t, wantGo, got, "free for Go, %q", name)
		got, err = java.AvailablePermits(ctx)
		require.NoError(t, err, name)
		require.Equal(t, wantJava, got, "free for Java, %q", name)
	}

	// Nothing there yet.
	require.Equal(t, name, l.Name())
	no("Exists")(l.Exists(ctx))
	_, err := l.Config(ctx)
	require.ErrorIs(t, err, rratelimiter.ErrNotInitialized, name)
	no("UpdateRate of nothing")(l.UpdateRate(ctx, rratelimiter.Rate{Type: kind, Permits: 10, Interval: time.Hour}))

	// Java sets the rate, Go reads it; both take.
	yes("Java trySetRate")(java.TrySetRate(ctx, oracle.Rate{Type: javaKind, Permits: 10, Interval: time.Hour}))
	no("TrySetRate of Java's")(l.TrySetRate(ctx, rratelimiter.Rate{Type: kind, Permits: 99, Interval: time.Hour}))
	rate, err := l.Config(ctx)
	require.NoError(t, err)
	require.Equal(t, rratelimiter.Rate{Type: kind, Permits: 10, Interval: time.Hour}, rate, name)
	yes("TryAcquire")(l.TryAcquire(ctx, 2))
	yes("Java tryAcquire")(java.TryAcquire(ctx, 3))
	free(shared(5, 8), shared(5, 7))
	require.NoError(t, l.Acquire(ctx, 1))
	yes("TryAcquireWithin")(l.TryAcquireWithin(ctx, 1, time.Second))
	decision, err := l.Take(ctx, 1)
	require.NoError(t, err)
	require.True(t, decision.Allowed, name)
	require.EqualValues(t, 10, decision.Limit)
	require.Equal(t, shared(2, 5), decision.Remaining, name)
	require.NoError(t, java.Acquire(ctx, 2))
	free(shared(0, 5), shared(0, 5))
	no("TryAcquire of too much")(l.TryAcquire(ctx, 6))
	no("Java tryAcquire of too much")(java.TryAcquireWithin(ctx, 6, time.Millisecond))
	no("TryAcquireWithin of too much")(l.TryAcquireWithin(ctx, 6, time.Second))

	// Go releases, and changes the rate with the taken permits counted.
	require.NoError(t, l.Release(ctx, 3))
	free(shared(3, 8), shared(3, 5))
	yes("UpdateRate")(l.UpdateRate(ctx, rratelimiter.Rate{Type: kind, Permits: 20, Interval: time.Hour},
		rratelimiter.KeepState()))
	javaRate, err := java.Config(ctx)
	require.NoError(t, err)
	require.Equal(t, oracle.Rate{Type: javaKind, Permits: 20, Interval: time.Hour}, javaRate, name)
	got, err := l.AvailablePermits(ctx)
	require.NoError(t, err)
	require.Equal(t, shared(13, 18), got, name)

	// Expiry, set by one and seen by the other.
	yes("Expire")(l.Expire(ctx, time.Hour))
	left, err := java.RemainTimeToLive(ctx)
	require.NoError(t, err)
	require.InDelta(t, time.Hour.Milliseconds(), left, 60_000, name)
	if version.Has(servers.ExpireCondition) {
		yes("Expire IfSet")(l.Expire(ctx, 2*time.Hour, rratelimiter.IfSet, rratelimiter.IfGreater))
		no("Expire IfNotSet")(func() (bool, error) {
			// What has no expiry of its five keys does not exist.
			return l.Expire(ctx, time.Hour, rratelimiter.IfNotSet)
		}())
	} else {
		_, err := l.Expire(ctx, 2*time.Hour, rratelimiter.IfSet)
		require.ErrorIs(t, err, rratelimiter.ErrUnsupported, name)
		unchanged, err := l.RemainTimeToLive(ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, unchanged, time.Hour, name)
	}
	at := time.Now().Add(3 * time.Hour).Truncate(time.Millisecond)
	yes("ExpireAt")(l.ExpireAt(ctx, at))
	when, err := l.ExpireTime(ctx)
	require.NoError(t, err)
	off := time.Duration(0)
	if !version.Has(servers.ExpireTime) {
		off = time.Second // Go adds the time to live to the server's time, and the clock goes on between the two
	}
	require.WithinDuration(t, at, when, off, name)
	javaAt, err := java.ExpireTime(ctx)
	if version.Has(servers.ExpireTime) {
		require.NoError(t, err)
		require.Equal(t, at.UnixMilli(), javaAt, name)
	} else {
		require.ErrorContains(t, err, "unknown command", name)
	}
	yes("Java clearExpire")(java.ClearExpire(ctx))
	ttl, err := l.RemainTimeToLive(ctx)
	require.NoError(t, err)
	require.Equal(t, rratelimiter.NeverExpires, ttl, name)
	yes("Java expire")(java.Expire(ctx, time.Hour))
	yes("ClearExpire")(l.ClearExpire(ctx))

	yes("Touch")(l.Touch(ctx))
	size, err := l.SizeInMemory(ctx)
	require.NoError(t, err)
	javaSize, err := java.SizeInMemory(ctx)
	require.NoError(t, err)
	require.Greater(t, size, javaSize, "%q: Go counts all keys, Java the configuration alone", name)

	// A rename to itself is the only one that an untagged name has within its slot: see
	// rename_test.go for the others.
	require.NoError(t, l.Rename(ctx, name))
	no("RenameNX")(l.RenameNX(ctx, name))
	no("Copy")(l.Copy(ctx, name))
	got, err = l.AvailablePermits(ctx)
	require.NoError(t, err)
	require.Equal(t, shared(13, 18), got, name)

	// A new rate, and the end.
	require.NoError(t, l.SetRate(ctx, rratelimiter.Rate{Type: kind, Permits: 5, Interval: time.Hour}))
	require.NoError(t, java.SetRate(ctx, oracle.Rate{Type: javaKind, Permits: 6, Interval: time.Hour}))
	free(6, 6)
	yes("TryAcquire")(l.TryAcquire(ctx, 1))
	yes("Java delete")(java.Delete(ctx))
	no("Exists")(l.Exists(ctx))
	unlinked, err := l.Unlink(ctx)
	require.NoError(t, err)
	require.Equal(t, perClient, unlinked, "%q: Java cannot delete the permits of Go's client", name)
	no("Delete")(l.Delete(ctx))
	ttl, err = l.RemainTimeToLive(ctx)
	require.NoError(t, err)
	require.Equal(t, rratelimiter.DoesNotExist, ttl)
}
