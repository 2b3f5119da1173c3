package calls_test

import (
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

const ten = "rate=10 interval=3600000 type=0 keepAliveTime=0"

// tenWithTTL returns keys that expire together.
func tenWithTTL(ttl string, state ...string) string {
	return strings.Join(append([]string{ten}, state...), " ttl "+ttl+"; ") + " ttl " + ttl
}

func setTen(op calls.Op) calls.Call { return calls.Call{Op: op, Permits: 10, Interval: time.Hour} }

func until(op calls.Op, permits int64, timeout time.Duration) calls.Call {
	return calls.Call{Op: op, Permits: permits, Timeout: timeout}
}

func to(op calls.Op, suffix string) calls.Call { return calls.Call{Op: op, NewName: suffix} }

var stories = []story{
	{"no rate", []step{
		{call: calls.Of(calls.TryAcquire, 1), reply: calls.NotInitialized, keys: "nothing"},
		{call: calls.Just(calls.TryAcquireOne), reply: calls.NotInitialized},
		{call: calls.Just(calls.AcquireOne), reply: calls.NotInitialized},
		{call: calls.Of(calls.Acquire, 2), reply: calls.NotInitialized},
		{call: until(calls.TryAcquireUntil, 1, time.Minute), reply: calls.NotInitialized},
		{call: calls.Just(calls.AvailablePermits), reply: calls.NotInitialized},
		{call: calls.Of(calls.Release, 1), reply: calls.NotInitialized},
		{call: calls.Of(calls.Release, 1), reply: calls.NotInitialized},
		{call: calls.Just(calls.GetConfig), reply: calls.NotInitialized},
		{call: calls.Just(calls.GetConfig), reply: calls.NotInitialized},
		{call: calls.Rate(calls.UpdateRate, 5, time.Hour), reply: "false"},
		{call: calls.KeepState(calls.UpdateRate, 5, time.Hour), reply: "false"},
		{call: calls.Just(calls.RemainTimeToLive), reply: "-2"},
		{call: calls.Just(calls.ExpireTime), reply: "-2"},
		{call: calls.Just(calls.ExpireTime), reply: "-2"},
		{call: calls.Just(calls.Delete), reply: "false"},
		{call: calls.Just(calls.Delete), reply: "false"},
		{call: calls.Just(calls.Unlink), reply: "false"},
		{call: calls.Just(calls.Touch), reply: "false"},
		{call: to(calls.Rename, "-new"), reply: calls.NoLimiter},
		{call: to(calls.RenameNX, "-new"), reply: calls.NoLimiter},
		{call: calls.Just(calls.SizeInMemory), reply: "false"},
		{call: calls.Expiring(calls.Expire, time.Hour), reply: "false"},
		{call: calls.Just(calls.ClearExpire), reply: "false"},
	}},
	{"all permits are taken and return", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: calls.Just(calls.TryAcquireOne), reply: "true", keys: ten + "; value 9; permits 1@0s"},
		{later: 10 * time.Minute, call: calls.Of(calls.TryAcquire, 3), reply: "true",
			keys: ten + "; value 6; permits 1@10m0s 3@0s"},
		{later: 10 * time.Minute, call: calls.Of(calls.Acquire, 2), reply: calls.Done,
			keys: ten + "; value 4; permits 1@20m0s 3@10m0s 2@0s"},
		{later: 10 * time.Minute, call: calls.Just(calls.AcquireOne), reply: calls.Done,
			keys: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: calls.Of(calls.TryAcquire, 4), reply: "false"},
		{call: until(calls.TryAcquireUntil, 4, 20*time.Millisecond), reply: "false"},
		{call: calls.Of(calls.TryAcquire, 11), reply: calls.AboveRate},
		{call: until(calls.TryAcquireUntil, 11, time.Second), reply: calls.AboveRate},
		{call: calls.Of(calls.Acquire, 11), reply: calls.AboveRate},
		// The first grant has expired.
		{later: 30 * time.Minute, call: calls.Of(calls.TryAcquire, 4), reply: "true",
			keys: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		{call: calls.Just(calls.TryAcquireOne), reply: "false"},
		{call: calls.Just(calls.AvailablePermits), reply: "0"},
		{call: calls.Just(calls.AvailablePermits), reply: "0"},
		// Three grants have expired; a denial reclaims them, too.
		{later: 30 * time.Minute, call: calls.Of(calls.TryAcquire, 7), reply: "false",
			keys: ten + "; value 6; permits 4@30m0s"},
		{call: until(calls.TryAcquireUntil, 5, time.Minute), reply: "true", keys: ten + "; value 1; permits 4@30m0s 5@0s"},
		{later: 10 * time.Minute, call: until(calls.TryAcquireOneUntil, 0, time.Minute), reply: "true",
			keys: ten + "; value 0; permits 4@40m0s 5@10m0s 1@0s"},
		// All have expired.
		{later: 2 * time.Hour, call: calls.Of(calls.TryAcquire, 10), reply: "true", keys: ten + "; value 0; permits 10@0s"},
		{later: time.Hour, call: calls.Of(calls.Acquire, 10), reply: calls.Done},
	}},
	{"an expiry is set, read and cleared", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: calls.Just(calls.RemainTimeToLive), reply: "-1"},
		{call: calls.Just(calls.ExpireTime), reply: "-1"},
		{call: calls.Just(calls.ExpireTime), reply: "-1"},
		{call: calls.Of(calls.TryAcquire, 4), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: calls.Expiring(calls.Expire, 5*time.Hour), reply: "true",
			keys: tenWithTTL("5h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Just(calls.RemainTimeToLive), reply: "5h0m0s"},
		{call: calls.Just(calls.ExpireTime), reply: "5h0m0s"},
		{call: calls.Just(calls.ExpireTime), reply: "5h0m0s"},
		{call: calls.Expiring(calls.ExpireAt, 6*time.Hour), reply: "true",
			keys: tenWithTTL("6h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireAt, 7*time.Hour), reply: "true",
			keys: tenWithTTL("7h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Just(calls.ClearExpire), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: calls.Just(calls.ClearExpire), reply: "false"},
		{call: calls.Just(calls.ClearExpire), reply: "false"},
		{call: calls.Expiring(calls.Expire, 3*time.Hour), reply: "true",
			keys: tenWithTTL("3h0m0s", "value 6", "permits 4@0s")},
		{later: time.Hour, call: calls.Of(calls.TryAcquire, 10), reply: "true",
			keys: tenWithTTL("2h0m0s", "value 0", "permits 10@0s")},
		{call: calls.Just(calls.TryAcquireOne), reply: "false"},
		{later: 3 * time.Hour, call: calls.Just(calls.Exists), reply: "false", keys: "nothing"},
	}},
	{"an expiry with conditions", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: calls.Of(calls.TryAcquire, 4), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: calls.Expiring(calls.ExpireIfSet, 5*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireAtIfSet, 5*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireIfGreater, 5*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireIfNotSet, 5*time.Hour), reply: "true",
			keys: tenWithTTL("5h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireIfNotSet, 6*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireAtIfNotSet, 6*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireIfSet, 6*time.Hour), reply: "true",
			keys: tenWithTTL("6h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireAtIfSet, 7*time.Hour), reply: "true",
			keys: tenWithTTL("7h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireIfGreater, 6*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireAtIfGreater, 8*time.Hour), reply: "true",
			keys: tenWithTTL("8h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireIfLess, 9*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireAtIfLess, 7*time.Hour), reply: "true",
			keys: tenWithTTL("7h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireAtIfLess, 8*time.Hour), reply: "false"},
		{call: calls.Expiring(calls.ExpireIfGreater, 8*time.Hour), reply: "true",
			keys: tenWithTTL("8h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Just(calls.ClearExpire), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: calls.Expiring(calls.ExpireAtIfNotSet, 2*time.Hour), reply: "true",
			keys: tenWithTTL("2h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireIfLess, time.Hour), reply: "true",
			keys: tenWithTTL("1h0m0s", "value 6", "permits 4@0s")},
		{call: calls.Expiring(calls.ExpireAtIfGreater, 30*time.Minute), reply: "false"},
		{call: calls.Just(calls.Delete), reply: "true", keys: "nothing"},
	}},
	{"deleting", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: calls.Of(calls.TryAcquire, 4), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: calls.Just(calls.Touch), reply: "true"},
		{call: calls.Just(calls.Touch), reply: "true"},
		{call: calls.Just(calls.SizeInMemory), reply: "true"},
		{call: calls.Just(calls.SizeInMemory), reply: "true"},
		{call: calls.Just(calls.Delete), reply: "true", keys: "nothing"},
		{call: calls.Just(calls.Delete), reply: "false"},
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: calls.Just(calls.Delete), reply: "true", keys: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: calls.Just(calls.Unlink), reply: "true", keys: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
	}},
}
