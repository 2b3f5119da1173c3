package calls_test

import (
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

const ten = "rate=10 interval=3600000 type=0 keepAliveTime=0"

func setTen(op calls.Op) calls.Call { return calls.Call{Op: op, Permits: 10, Interval: time.Hour} }

func rate(op calls.Op, permits int64, interval time.Duration) calls.Call {
	return calls.Call{Op: op, Permits: permits, Interval: interval}
}

func lasting(op calls.Op, keepAlive time.Duration) calls.Call {
	c := setTen(op)
	c.KeepAlive = keepAlive
	return c
}

func keeping(op calls.Op, permits int64, interval time.Duration) calls.Call {
	c := rate(op, permits, interval)
	c.KeepState = true
	return c
}

func take(op calls.Op, permits int64) calls.Call { return calls.Call{Op: op, Permits: permits} }

func until(op calls.Op, permits int64, timeout time.Duration) calls.Call {
	return calls.Call{Op: op, Permits: permits, Timeout: timeout}
}

func expire(op calls.Op, d time.Duration) calls.Call { return calls.Call{Op: op, Expiry: d} }

func to(op calls.Op, suffix string) calls.Call { return calls.Call{Op: op, NewName: suffix} }

func just(op calls.Op) calls.Call { return calls.Call{Op: op} }

var stories = []story{
	{"the first to set the rate wins", []step{
		{call: just(calls.Exists), reply: "false", keys: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: rate(calls.TrySetRate, 7, time.Minute), reply: "false", keys: ten},
		{call: lasting(calls.TrySetRate, 2*time.Hour), reply: "false", keys: ten},
		{call: just(calls.GetConfig), reply: "OVERALL 10/1h0m0s", keys: ten},
		{call: just(calls.GetConfig), reply: "OVERALL 10/1h0m0s", keys: ten},
		{call: just(calls.Exists), reply: "true", keys: ten},
		{call: just(calls.Exists), reply: "true", keys: ten},
	}},
	{"nothing is served without a rate", []step{
		{call: take(calls.TryAcquire, 1), reply: calls.NotInitialized, keys: "nothing"},
		{call: just(calls.TryAcquireOne), reply: calls.NotInitialized, keys: "nothing"},
		{call: just(calls.AcquireOne), reply: calls.NotInitialized, keys: "nothing"},
		{call: take(calls.Acquire, 2), reply: calls.NotInitialized, keys: "nothing"},
		{call: until(calls.TryAcquireUntil, 1, time.Minute), reply: calls.NotInitialized, keys: "nothing"},
		{call: just(calls.AvailablePermits), reply: calls.NotInitialized, keys: "nothing"},
		{call: take(calls.Release, 1), reply: calls.NotInitialized, keys: "nothing"},
		{call: take(calls.Release, 1), reply: calls.NotInitialized, keys: "nothing"},
		{call: just(calls.GetConfig), reply: calls.NotInitialized, keys: "nothing"},
		{call: just(calls.GetConfig), reply: calls.NotInitialized, keys: "nothing"},
		{call: rate(calls.UpdateRate, 5, time.Hour), reply: "false", keys: "nothing"},
		{call: keeping(calls.UpdateRate, 5, time.Hour), reply: "false", keys: "nothing"},
		{call: just(calls.RemainTimeToLive), reply: "-2", keys: "nothing"},
		{call: just(calls.ExpireTime), reply: "-2", keys: "nothing"},
		{call: just(calls.ExpireTime), reply: "-2", keys: "nothing"},
		{call: just(calls.Delete), reply: "false", keys: "nothing"},
		{call: just(calls.Delete), reply: "false", keys: "nothing"},
		{call: just(calls.Unlink), reply: "false", keys: "nothing"},
		{call: just(calls.Touch), reply: "false", keys: "nothing"},
		{call: to(calls.Rename, "-new"), reply: calls.NoLimiter, keys: "nothing"},
		{call: to(calls.RenameNX, "-new"), reply: calls.NoLimiter, keys: "nothing"},
		{call: just(calls.SizeInMemory), reply: "false", keys: "nothing"},
		{call: expire(calls.Expire, time.Hour), reply: "false", keys: "nothing"},
		{call: just(calls.ClearExpire), reply: "false", keys: "nothing"},
	}},
	{"permits are taken until none are left, and come back", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: just(calls.TryAcquireOne), reply: "true", keys: ten + "; value 9; permits 1@0s"},
		{later: 10 * time.Minute, call: take(calls.TryAcquire, 3), reply: "true",
			keys: ten + "; value 6; permits 1@10m0s 3@0s"},
		{later: 10 * time.Minute, call: take(calls.Acquire, 2), reply: calls.Done,
			keys: ten + "; value 4; permits 1@20m0s 3@10m0s 2@0s"},
		{later: 10 * time.Minute, call: just(calls.AcquireOne), reply: calls.Done,
			keys: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: take(calls.TryAcquire, 4), reply: "false",
			keys: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: until(calls.TryAcquireUntil, 4, 20*time.Millisecond), reply: "false",
			keys: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: take(calls.TryAcquire, 11), reply: calls.AboveRate,
			keys: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: until(calls.TryAcquireUntil, 11, time.Second), reply: calls.AboveRate,
			keys: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: take(calls.Acquire, 11), reply: calls.AboveRate,
			keys: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		// The first grant has expired, which makes 4 of 3.
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 4), reply: "true",
			keys: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		{call: just(calls.TryAcquireOne), reply: "false",
			keys: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		{call: just(calls.AvailablePermits), reply: "0",
			keys: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		{call: just(calls.AvailablePermits), reply: "0",
			keys: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		// Three grants leave at once; a denial gives them back too.
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 7), reply: "false",
			keys: ten + "; value 6; permits 4@30m0s"},
		{call: until(calls.TryAcquireUntil, 5, time.Minute), reply: "true",
			keys: ten + "; value 1; permits 4@30m0s 5@0s"},
		{later: 10 * time.Minute, call: until(calls.TryAcquireOneUntil, 0, time.Minute), reply: "true",
			keys: ten + "; value 0; permits 4@40m0s 5@10m0s 1@0s"},
		// Everything leaves.
		{later: 2 * time.Hour, call: take(calls.TryAcquire, 10), reply: "true",
			keys: ten + "; value 0; permits 10@0s"},
		{later: time.Hour, call: take(calls.Acquire, 10), reply: calls.Done, keys: ten + "; value 0; permits 10@0s"},
	}},
	{"counting the free permits", []step{
		{call: setTen(calls.SetRate), reply: calls.Done, keys: ten},
		{call: just(calls.AvailablePermits), reply: "10", keys: ten + "; value 10", goKeys: ten},
		{call: just(calls.AvailablePermits), reply: "10", keys: ten + "; value 10", goKeys: ten + "; value 10"},
	}},
	{"counting the free permits once a grant has left the window", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: take(calls.TryAcquire, 3), reply: "true", keys: ten + "; value 7; permits 3@0s"},
		{later: 40 * time.Minute, call: take(calls.TryAcquire, 2), reply: "true",
			keys: ten + "; value 5; permits 3@40m0s 2@0s"},
		{later: 30 * time.Minute, call: just(calls.AvailablePermits), reply: "8",
			keys:   ten + "; value 8; permits 2@30m0s",
			goKeys: ten + "; value 5; permits 3@1h10m0s 2@30m0s"},
		{call: take(calls.TryAcquire, 8), reply: "true", keys: ten + "; value 0; permits 2@30m0s 8@0s"},
	}},
	{"released permits are free again", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: take(calls.TryAcquire, 6), reply: "true", keys: ten + "; value 4; permits 6@0s"},
		{call: take(calls.Release, 2), reply: calls.Done, keys: ten + "; value 6; permits 6@0s",
			goKeys: ten + "; value 6; permits 4@0s"},
		{call: rate(calls.SetRate, 10, time.Hour), reply: calls.Done, keys: ten},
		{call: take(calls.TryAcquire, 10), reply: "true", keys: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, 0), reply: calls.Done, keys: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, -1), reply: calls.Refused, keys: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, 0), reply: calls.Done, keys: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, -1), reply: calls.Refused, keys: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, 12), reply: calls.Done, keys: ten + "; value 10; permits 10@0s",
			goKeys: ten + "; value 10"},
	}},
	{"a new rate resets the state", []step{
		{call: setTen(calls.SetRate), reply: calls.Done, keys: ten},
		{call: take(calls.TryAcquire, 6), reply: "true", keys: ten + "; value 4; permits 6@0s"},
		{call: rate(calls.SetRate, 5, 2*time.Hour), reply: calls.Done,
			keys: "rate=5 interval=7200000 type=0 keepAliveTime=0"},
		{call: take(calls.TryAcquire, 5), reply: "true",
			keys: "rate=5 interval=7200000 type=0 keepAliveTime=0; value 0; permits 5@0s"},
		{call: setTen(calls.SetRate), reply: calls.Done, keys: ten},
		{call: take(calls.TryAcquire, 6), reply: "true", keys: ten + "; value 4; permits 6@0s"},
		{call: rate(calls.SetRateArgs, 3, time.Hour), reply: calls.Done,
			keys: "rate=3 interval=3600000 type=0 keepAliveTime=0"},
		{call: take(calls.TryAcquire, 2), reply: "true",
			keys: "rate=3 interval=3600000 type=0 keepAliveTime=0; value 1; permits 2@0s"},
		{call: setTen(calls.UpdateRate), reply: "true", keys: ten},
		{call: setTen(calls.UpdateRate), reply: "true", keys: ten},
		{call: setTen(calls.SetRateArgs), reply: calls.Done, keys: ten},
	}},
	{"a new rate keeps what is taken", []step{
		{call: setTen(calls.SetRate), reply: calls.Done, keys: ten},
		{call: take(calls.TryAcquire, 2), reply: "true", keys: ten + "; value 8; permits 2@0s"},
		{later: 40 * time.Minute, call: take(calls.TryAcquire, 3), reply: "true",
			keys: ten + "; value 5; permits 2@40m0s 3@0s"},
		{call: keeping(calls.UpdateRate, 20, time.Hour), reply: "true",
			keys: "rate=20 interval=3600000 type=0 keepAliveTime=0; value 15; permits 2@40m0s 3@0s"},
		{call: keeping(calls.SetRateArgs, 7, 2*time.Hour), reply: calls.Done,
			keys: "rate=7 interval=7200000 type=0 keepAliveTime=0; value 2; permits 2@40m0s 3@0s"},
		{call: keeping(calls.SetRateArgs, 7, 30*time.Minute), reply: calls.Done,
			keys: "rate=7 interval=1800000 type=0 keepAliveTime=0; value 4; permits 3@0s"},
		{call: keeping(calls.UpdateRate, 10, time.Hour), reply: "true", keys: ten + "; value 7; permits 3@0s"},
		{later: 10 * time.Minute, call: take(calls.TryAcquire, 7), reply: "true",
			keys: ten + "; value 0; permits 3@10m0s 7@0s"},
	}},
	{"a limiter that is kept alive by its use", []step{
		{call: lasting(calls.TrySetRate, 2*time.Hour), reply: "true",
			keys: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s"},
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 4), reply: "true",
			keys: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s; value 6 ttl 2h0m0s; permits 4@0s ttl 2h0m0s"},
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 7), reply: "false",
			keys: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s; value 6 ttl 2h0m0s; permits 4@30m0s ttl 2h0m0s"},
		{later: 10 * time.Minute, call: just(calls.RemainTimeToLive), reply: "1h50m0s",
			keys: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 1h50m0s; value 6 ttl 1h50m0s; permits 4@40m0s ttl 1h50m0s"},
		{later: 0, call: take(calls.Acquire, 6), reply: calls.Done,
			keys: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s; value 0 ttl 2h0m0s; permits 4@40m0s 6@0s ttl 2h0m0s"},
		{call: lasting(calls.SetRate, 3*time.Hour), reply: calls.Done,
			keys: "rate=10 interval=3600000 type=0 keepAliveTime=10800000 ttl 3h0m0s"},
		{call: take(calls.TryAcquire, 6), reply: "true",
			keys: "rate=10 interval=3600000 type=0 keepAliveTime=10800000 ttl 3h0m0s; value 4 ttl 3h0m0s; permits 6@0s ttl 3h0m0s"},
		{later: 4 * time.Hour, call: take(calls.TryAcquire, 1), reply: calls.NotInitialized, keys: "nothing"},
	}},
	{"an expiry that is set, looked at and cleared", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: just(calls.RemainTimeToLive), reply: "-1", keys: ten},
		{call: just(calls.ExpireTime), reply: "-1", keys: ten},
		{call: just(calls.ExpireTime), reply: "-1", keys: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.Expire, 5*time.Hour), reply: "true",
			keys: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: just(calls.RemainTimeToLive), reply: "5h0m0s",
			keys: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: just(calls.ExpireTime), reply: "5h0m0s",
			keys: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: just(calls.ExpireTime), reply: "5h0m0s",
			keys: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireAt, 6*time.Hour), reply: "true",
			keys: ten + " ttl 6h0m0s; value 6 ttl 6h0m0s; permits 4@0s ttl 6h0m0s"},
		{call: expire(calls.ExpireAt, 7*time.Hour), reply: "true",
			keys: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: just(calls.ClearExpire), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.ClearExpire), reply: "false", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.ClearExpire), reply: "false", keys: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.Expire, 3*time.Hour), reply: "true",
			keys: ten + " ttl 3h0m0s; value 6 ttl 3h0m0s; permits 4@0s ttl 3h0m0s"},
		{later: time.Hour, call: take(calls.TryAcquire, 10), reply: "true",
			keys: ten + " ttl 2h0m0s; value 0 ttl 2h0m0s; permits 10@0s ttl 2h0m0s"},
		{call: just(calls.TryAcquireOne), reply: "false",
			keys: ten + " ttl 2h0m0s; value 0 ttl 2h0m0s; permits 10@0s ttl 2h0m0s"},
		{later: 3 * time.Hour, call: just(calls.Exists), reply: "false", keys: "nothing"},
	}},
	{"an expiry on conditions", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireIfSet, 5*time.Hour), reply: "false", keys: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireAtIfSet, 5*time.Hour), reply: "false", keys: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireIfGreater, 5*time.Hour), reply: "false", keys: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireIfNotSet, 5*time.Hour), reply: "true",
			keys: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireIfNotSet, 6*time.Hour), reply: "false",
			keys: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireAtIfNotSet, 6*time.Hour), reply: "false",
			keys: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireIfSet, 6*time.Hour), reply: "true",
			keys: ten + " ttl 6h0m0s; value 6 ttl 6h0m0s; permits 4@0s ttl 6h0m0s"},
		{call: expire(calls.ExpireAtIfSet, 7*time.Hour), reply: "true",
			keys: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireIfGreater, 6*time.Hour), reply: "false",
			keys: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireAtIfGreater, 8*time.Hour), reply: "true",
			keys: ten + " ttl 8h0m0s; value 6 ttl 8h0m0s; permits 4@0s ttl 8h0m0s"},
		{call: expire(calls.ExpireIfLess, 9*time.Hour), reply: "false",
			keys: ten + " ttl 8h0m0s; value 6 ttl 8h0m0s; permits 4@0s ttl 8h0m0s"},
		{call: expire(calls.ExpireAtIfLess, 7*time.Hour), reply: "true",
			keys: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireAtIfLess, 8*time.Hour), reply: "false",
			keys: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireIfGreater, 8*time.Hour), reply: "true",
			keys: ten + " ttl 8h0m0s; value 6 ttl 8h0m0s; permits 4@0s ttl 8h0m0s"},
		{call: just(calls.ClearExpire), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireAtIfNotSet, 2*time.Hour), reply: "true",
			keys: ten + " ttl 2h0m0s; value 6 ttl 2h0m0s; permits 4@0s ttl 2h0m0s"},
		{call: expire(calls.ExpireIfLess, time.Hour), reply: "true",
			keys: ten + " ttl 1h0m0s; value 6 ttl 1h0m0s; permits 4@0s ttl 1h0m0s"},
		{call: expire(calls.ExpireAtIfGreater, 30*time.Minute), reply: "false",
			keys: ten + " ttl 1h0m0s; value 6 ttl 1h0m0s; permits 4@0s ttl 1h0m0s"},
		{call: just(calls.Delete), reply: "true", keys: "nothing"},
	}},
	{"deleting", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Touch), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Touch), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.SizeInMemory), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.SizeInMemory), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Delete), reply: "true", keys: "nothing"},
		{call: just(calls.Delete), reply: "false", keys: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: just(calls.Delete), reply: "true", keys: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: just(calls.Unlink), reply: "true", keys: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
	}},
	{"unlinking takes the state along in Go alone", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keys: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keys: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Unlink), reply: "true", keys: "value 6; permits 4@0s", goKeys: "nothing"},
	}},
}
