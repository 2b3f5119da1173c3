package calls

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// Every makes all calls on one limiter, from its first rate to its deletion. Go and Java take
// turns: each sees the changes of the other. Of a PER_CLIENT limiter each has its own permits.
func Every(t testing.TB, client *rratelimiter.Client, redisson *oracle.Redisson, server servers.Version, name string,
	perClient bool) {
	t.Helper()
	golang, java := Go(client.Limiter(name)), Java(redisson.Limiter(name))
	take := func(op Op, permits int64) Call {
		return Call{Op: op, Permits: permits, Timeout: time.Minute}
	}
	rate := func(op Op, permits int64) Call {
		return Call{
			Op: op, Permits: permits, Interval: time.Hour, PerClient: perClient, KeepState: op == UpdateRate,
		}
	}
	to := func(op Op) Call { return Call{Op: op, NewName: name} }
	afterSetRate := Reply("6")
	if !AtLeast(redisson.Version(), "3.27.0") {
		afterSetRate = "5" // an older release keeps the state of its client
	}
	kind := map[bool]string{false: "OVERALL", true: "PER_CLIENT"}[perClient]
	for i, step := range []struct {
		by    Library
		call  Call
		want  Reply
		alone Reply // of a PER_CLIENT limiter, if it differs
	}{
		{golang, Just(Exists), "false", ""},
		{golang, rate(UpdateRate, 10), "false", ""},
		{java, rate(TrySetRate, 10), "true", ""},
		{golang, rate(TrySetRate, 99), "false", ""},
		{golang, Just(GetConfig), Reply(kind + " 10/1h0m0s"), ""},
		{golang, take(TryAcquire, 2), "true", ""},
		{java, take(TryAcquire, 3), "true", ""},
		{golang, Just(AvailablePermits), "5", "8"},
		{java, Just(AvailablePermits), "5", "7"},
		{golang, take(Acquire, 1), Done, ""},
		{golang, take(TryAcquireUntil, 1), "true", ""},
		{golang, take(Take, 1), Decision(true, 10, 2, 0, time.Hour), Decision(true, 10, 5, 0, time.Hour)},
		{java, take(Acquire, 2), Done, ""},
		{java, Call{Op: TryAcquireUntil, Permits: 6, Timeout: time.Millisecond}, "false", ""},
		{golang, take(Release, 3), Done, ""},
		{golang, Just(AvailablePermits), "3", "8"},
		{java, Just(AvailablePermits), "3", "5"},
		{golang, rate(UpdateRate, 20), "true", ""},
		{golang, Just(AvailablePermits), "13", "18"},
		{golang, Expiring(Expire, 1*time.Hour), "true", ""},
		{java, Just(RemainTimeToLive), "1h0m0s", ""},
		{golang, Expiring(ExpireIfGreater, 2*time.Hour), "true", ""},
		{golang, Expiring(ExpireAt, 3*time.Hour), "true", ""},
		{golang, Just(ExpireTime), "3h0m0s", ""},
		{java, Just(ExpireTime), "3h0m0s", ""},
		{java, Just(ClearExpire), "true", ""},
		{golang, Just(RemainTimeToLive), "-1", ""},
		{java, Expiring(Expire, 1*time.Hour), "true", ""},
		{golang, Just(ClearExpire), "true", ""},
		{golang, Just(Touch), "true", ""},
		{golang, Just(SizeInMemory), "true", ""},
		// The only rename of an untagged name within its slot: rename_test.go has the others.
		{golang, to(Rename), Done, ""},
		{golang, to(RenameNX), "false", ""},
		{golang, to(Copy), "false", ""},
		{golang, Just(AvailablePermits), "13", "18"},
		{golang, rate(SetRate, 5), Done, ""},
		{java, rate(SetRate, 6), Done, ""},
		{golang, take(TryAcquire, 1), "true", ""},
		{java, Just(AvailablePermits), "5", afterSetRate},
		{java, Just(Delete), "true", ""},
		// Java cannot delete the state of Go's client.
		{golang, Just(Unlink), "false", "true"},
		{golang, Just(Delete), "false", ""},
		{golang, Just(RemainTimeToLive), "-2", ""},
	} {
		got, err := step.by.Do(t.Context(), step.call)
		if errors.Is(err, oracle.ErrUnsupported) {
			require.NotEqual(t, "4.7.0", redisson.Version())
			t.Logf("Redisson %s lacks %v: Go calls it", redisson.Version(), step.call.Op)
			got, err = golang.Do(t.Context(), step.call)
		}
		require.NoError(t, err, "step %d of %q", i, name)
		want := []Reply{step.want}
		if perClient && step.alone != "" {
			want = []Reply{step.alone}
		}
		if need, some := Needs(step.by, step.call.Op); some && !server.Has(need) {
			want = append(want, Lacking)
		}
		require.Contains(t, want, got, "step %d of %q, %v: %v", i, name, step.by, step.call)
	}
}
