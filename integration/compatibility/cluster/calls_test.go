package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// A thousand limiters, one in each thousandth of the slots, on all masters, and names with hash tags.
func TestCalls_NamesInEverySlotRange_GoAndJavaAgree(t *testing.T) {
	const ranges, workers = 1000, 8
	names := append(namesInEverySlotRange(t, ranges), "{tenant7}:second", "{tenant7}:minute", "api:{tenant8}", "{a}{b}",
		"{a}}", "{user 1}:ü", "a{b}c{", "{a}{", "x{{a}}y", "{{}", "a}{b}")
	for worker := range workers {
		t.Run(fmt.Sprintf("worker%d", worker), func(t *testing.T) {
			t.Parallel()
			for i := worker; i < len(names); i += workers {
				everyCall(t, names[i], false)
				if i%20 == 0 || i >= ranges {
					everyCall(t, names[i], true)
				}
			}
		})
	}
}

// namesInEverySlotRange returns n names, one in each n-th part of the slots.
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

// everyCall makes all calls on one limiter, from its first rate to its deletion. Go and Java take
// turns: each sees the changes of the other. Of a PER_CLIENT limiter each has its own permits.
func everyCall(t *testing.T, name string, perClient bool) {
	t.Helper()
	golang, java := calls.Go(client.Limiter(name)), calls.Java(redisson.Limiter(name))
	take := func(op calls.Op, permits int64) calls.Call {
		return calls.Call{Op: op, Permits: permits, Timeout: time.Minute}
	}
	rate := func(op calls.Op, permits int64) calls.Call {
		return calls.Call{
			Op: op, Permits: permits, Interval: time.Hour, PerClient: perClient, KeepState: op == calls.UpdateRate,
		}
	}
	to := func(op calls.Op) calls.Call { return calls.Call{Op: op, NewName: name} }
	kind := map[bool]string{false: "OVERALL", true: "PER_CLIENT"}[perClient]
	for i, step := range []struct {
		by    calls.Library
		call  calls.Call
		want  calls.Reply
		alone calls.Reply // of a PER_CLIENT limiter, if it differs
	}{
		{golang, calls.Just(calls.Exists), "false", ""},
		{golang, rate(calls.UpdateRate, 10), "false", ""},
		{java, rate(calls.TrySetRate, 10), "true", ""},
		{golang, rate(calls.TrySetRate, 99), "false", ""},
		{golang, calls.Just(calls.GetConfig), calls.Reply(kind + " 10/1h0m0s"), ""},
		{golang, take(calls.TryAcquire, 2), "true", ""},
		{java, take(calls.TryAcquire, 3), "true", ""},
		{golang, calls.Just(calls.AvailablePermits), "5", "8"},
		{java, calls.Just(calls.AvailablePermits), "5", "7"},
		{golang, take(calls.Acquire, 1), calls.Done, ""},
		{golang, take(calls.TryAcquireUntil, 1), "true", ""},
		{golang, take(calls.Take, 1), calls.Decision(true, 10, 2, 0, time.Hour), calls.Decision(true, 10, 5, 0, time.Hour)},
		{java, take(calls.Acquire, 2), calls.Done, ""},
		{java, calls.Call{Op: calls.TryAcquireUntil, Permits: 6, Timeout: time.Millisecond}, "false", ""},
		{golang, take(calls.Release, 3), calls.Done, ""},
		{golang, calls.Just(calls.AvailablePermits), "3", "8"},
		{java, calls.Just(calls.AvailablePermits), "3", "5"},
		{golang, rate(calls.UpdateRate, 20), "true", ""},
		{golang, calls.Just(calls.AvailablePermits), "13", "18"},
		{golang, calls.Expiring(calls.Expire, 1*time.Hour), "true", ""},
		{java, calls.Just(calls.RemainTimeToLive), "1h0m0s", ""},
		{golang, calls.Expiring(calls.ExpireIfGreater, 2*time.Hour), "true", ""},
		{golang, calls.Expiring(calls.ExpireAt, 3*time.Hour), "true", ""},
		{golang, calls.Just(calls.ExpireTime), "3h0m0s", ""},
		{java, calls.Just(calls.ExpireTime), "3h0m0s", ""},
		{java, calls.Just(calls.ClearExpire), "true", ""},
		{golang, calls.Just(calls.RemainTimeToLive), "-1", ""},
		{java, calls.Expiring(calls.Expire, 1*time.Hour), "true", ""},
		{golang, calls.Just(calls.ClearExpire), "true", ""},
		{golang, calls.Just(calls.Touch), "true", ""},
		{golang, calls.Just(calls.SizeInMemory), "true", ""},
		// The only rename of an untagged name within its slot: rename_test.go has the others.
		{golang, to(calls.Rename), calls.Done, ""},
		{golang, to(calls.RenameNX), "false", ""},
		{golang, to(calls.Copy), "false", ""},
		{golang, calls.Just(calls.AvailablePermits), "13", "18"},
		{golang, rate(calls.SetRate, 5), calls.Done, ""},
		{java, rate(calls.SetRate, 6), calls.Done, ""},
		{golang, take(calls.TryAcquire, 1), "true", ""},
		{java, calls.Just(calls.AvailablePermits), "5", "6"},
		{java, calls.Just(calls.Delete), "true", ""},
		// Java cannot delete the state of Go's client.
		{golang, calls.Just(calls.Unlink), "false", "true"},
		{golang, calls.Just(calls.Delete), "false", ""},
		{golang, calls.Just(calls.RemainTimeToLive), "-2", ""},
	} {
		got, err := step.by.Do(t.Context(), step.call)
		require.NoError(t, err, "step %d of %q", i, name)
		want := []calls.Reply{step.want}
		if perClient && step.alone != "" {
			want = []calls.Reply{step.alone}
		}
		if need, some := calls.Needs(step.by, step.call.Op); some && !version.Has(need) {
			want = append(want, calls.Lacking)
		}
		require.Contains(t, want, got, "step %d of %q, %v: %v", i, name, step.by, step.call)
	}
}
