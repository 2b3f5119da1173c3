package calls_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
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
		{call: just(calls.Exists), reply: "false", keeps: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: rate(calls.TrySetRate, 7, time.Minute), reply: "false", keeps: ten},
		{call: lasting(calls.TrySetRate, 2*time.Hour), reply: "false", keeps: ten},
		{call: just(calls.GetConfig), reply: "OVERALL 10/1h0m0s", keeps: ten},
		{call: just(calls.GetConfig), reply: "OVERALL 10/1h0m0s", keeps: ten},
		{call: just(calls.Exists), reply: "true", keeps: ten},
		{call: just(calls.Exists), reply: "true", keeps: ten},
	}},
	{"nothing is served without a rate", []step{
		{call: take(calls.TryAcquire, 1), reply: calls.NotInitialized, keeps: "nothing"},
		{call: just(calls.TryAcquireOne), reply: calls.NotInitialized, keeps: "nothing"},
		{call: just(calls.AcquireOne), reply: calls.NotInitialized, keeps: "nothing"},
		{call: take(calls.Acquire, 2), reply: calls.NotInitialized, keeps: "nothing"},
		{call: until(calls.TryAcquireUntil, 1, time.Minute), reply: calls.NotInitialized, keeps: "nothing"},
		{call: just(calls.AvailablePermits), reply: calls.NotInitialized, keeps: "nothing"},
		{call: take(calls.Release, 1), reply: calls.NotInitialized, keeps: "nothing"},
		{call: take(calls.Release, 1), reply: calls.NotInitialized, keeps: "nothing"},
		{call: just(calls.GetConfig), reply: calls.NotInitialized, keeps: "nothing"},
		{call: just(calls.GetConfig), reply: calls.NotInitialized, keeps: "nothing"},
		{call: rate(calls.UpdateRate, 5, time.Hour), reply: "false", keeps: "nothing"},
		{call: keeping(calls.UpdateRate, 5, time.Hour), reply: "false", keeps: "nothing"},
		{call: just(calls.RemainTimeToLive), reply: "-2", keeps: "nothing"},
		{call: just(calls.ExpireTime), reply: "-2", keeps: "nothing"},
		{call: just(calls.ExpireTime), reply: "-2", keeps: "nothing"},
		{call: just(calls.Delete), reply: "false", keeps: "nothing"},
		{call: just(calls.Delete), reply: "false", keeps: "nothing"},
		{call: just(calls.Unlink), reply: "false", keeps: "nothing"},
		{call: just(calls.Touch), reply: "false", keeps: "nothing"},
		{call: to(calls.Rename, "-new"), reply: calls.NoLimiter, keeps: "nothing"},
		{call: to(calls.RenameNX, "-new"), reply: calls.NoLimiter, keeps: "nothing"},
		{call: just(calls.SizeInMemory), reply: "false", keeps: "nothing"},
		{call: expire(calls.Expire, time.Hour), reply: "false", keeps: "nothing"},
		{call: just(calls.ClearExpire), reply: "false", keeps: "nothing"},
	}},
	{"permits are taken until none are left, and come back", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: just(calls.TryAcquireOne), reply: "true", keeps: ten + "; value 9; permits 1@0s"},
		{later: 10 * time.Minute, call: take(calls.TryAcquire, 3), reply: "true", keeps: ten + "; value 6; permits 1@10m0s 3@0s"},
		{later: 10 * time.Minute, call: take(calls.Acquire, 2), reply: calls.Done, keeps: ten + "; value 4; permits 1@20m0s 3@10m0s 2@0s"},
		{later: 10 * time.Minute, call: just(calls.AcquireOne), reply: calls.Done, keeps: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: take(calls.TryAcquire, 4), reply: "false", keeps: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: until(calls.TryAcquireUntil, 4, 20*time.Millisecond), reply: "false", keeps: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: take(calls.TryAcquire, 11), reply: calls.AboveRate, keeps: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: until(calls.TryAcquireUntil, 11, time.Second), reply: calls.AboveRate, keeps: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		{call: take(calls.Acquire, 11), reply: calls.AboveRate, keeps: ten + "; value 3; permits 1@30m0s 3@20m0s 2@10m0s 1@0s"},
		// The first grant has left the window, which makes 4 of 3.
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 4), reply: "true", keeps: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		{call: just(calls.TryAcquireOne), reply: "false", keeps: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		{call: just(calls.AvailablePermits), reply: "0", keeps: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		{call: just(calls.AvailablePermits), reply: "0", keeps: ten + "; value 0; permits 3@50m0s 2@40m0s 1@30m0s 4@0s"},
		// Three grants leave at once; a denial gives them back too.
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 7), reply: "false", keeps: ten + "; value 6; permits 4@30m0s"},
		{call: until(calls.TryAcquireUntil, 5, time.Minute), reply: "true", keeps: ten + "; value 1; permits 4@30m0s 5@0s"},
		{later: 10 * time.Minute, call: until(calls.TryAcquireOneUntil, 0, time.Minute), reply: "true",
			keeps: ten + "; value 0; permits 4@40m0s 5@10m0s 1@0s"},
		// Everything leaves.
		{later: 2 * time.Hour, call: take(calls.TryAcquire, 10), reply: "true", keeps: ten + "; value 0; permits 10@0s"},
		{later: time.Hour, call: take(calls.Acquire, 10), reply: calls.Done, keeps: ten + "; value 0; permits 10@0s"},
	}},
	{"counting the free permits", []step{
		{call: setTen(calls.SetRate), reply: calls.Done, keeps: ten},
		{call: just(calls.AvailablePermits), reply: "10", keeps: ten + "; value 10", goKeeps: ten},
		{call: just(calls.AvailablePermits), reply: "10", keeps: ten + "; value 10", goKeeps: ten + "; value 10"},
	}},
	{"counting the free permits once a grant has left the window", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: take(calls.TryAcquire, 3), reply: "true", keeps: ten + "; value 7; permits 3@0s"},
		{later: 40 * time.Minute, call: take(calls.TryAcquire, 2), reply: "true", keeps: ten + "; value 5; permits 3@40m0s 2@0s"},
		{later: 30 * time.Minute, call: just(calls.AvailablePermits), reply: "8", keeps: ten + "; value 8; permits 2@30m0s",
			goKeeps: ten + "; value 5; permits 3@1h10m0s 2@30m0s"},
		{call: take(calls.TryAcquire, 8), reply: "true", keeps: ten + "; value 0; permits 2@30m0s 8@0s"},
	}},
	{"released permits are free again", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: take(calls.TryAcquire, 6), reply: "true", keeps: ten + "; value 4; permits 6@0s"},
		{call: take(calls.Release, 2), reply: calls.Done, keeps: ten + "; value 6; permits 6@0s", goKeeps: ten + "; value 6; permits 4@0s"},
		{call: rate(calls.SetRate, 10, time.Hour), reply: calls.Done, keeps: ten},
		{call: take(calls.TryAcquire, 10), reply: "true", keeps: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, 0), reply: calls.Done, keeps: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, -1), reply: calls.Refused, keeps: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, 0), reply: calls.Done, keeps: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, -1), reply: calls.Refused, keeps: ten + "; value 0; permits 10@0s"},
		{call: take(calls.Release, 12), reply: calls.Done, keeps: ten + "; value 10; permits 10@0s", goKeeps: ten + "; value 10"},
	}},
	{"a new rate begins anew", []step{
		{call: setTen(calls.SetRate), reply: calls.Done, keeps: ten},
		{call: take(calls.TryAcquire, 6), reply: "true", keeps: ten + "; value 4; permits 6@0s"},
		{call: rate(calls.SetRate, 5, 2*time.Hour), reply: calls.Done, keeps: "rate=5 interval=7200000 type=0 keepAliveTime=0"},
		{call: take(calls.TryAcquire, 5), reply: "true", keeps: "rate=5 interval=7200000 type=0 keepAliveTime=0; value 0; permits 5@0s"},
		{call: setTen(calls.SetRate), reply: calls.Done, keeps: ten},
		{call: take(calls.TryAcquire, 6), reply: "true", keeps: ten + "; value 4; permits 6@0s"},
		{call: rate(calls.SetRateArgs, 3, time.Hour), reply: calls.Done, keeps: "rate=3 interval=3600000 type=0 keepAliveTime=0"},
		{call: take(calls.TryAcquire, 2), reply: "true", keeps: "rate=3 interval=3600000 type=0 keepAliveTime=0; value 1; permits 2@0s"},
		{call: setTen(calls.UpdateRate), reply: "true", keeps: ten},
		{call: setTen(calls.UpdateRate), reply: "true", keeps: ten},
		{call: setTen(calls.SetRateArgs), reply: calls.Done, keeps: ten},
	}},
	{"a new rate keeps what is taken", []step{
		{call: setTen(calls.SetRate), reply: calls.Done, keeps: ten},
		{call: take(calls.TryAcquire, 2), reply: "true", keeps: ten + "; value 8; permits 2@0s"},
		{later: 40 * time.Minute, call: take(calls.TryAcquire, 3), reply: "true", keeps: ten + "; value 5; permits 2@40m0s 3@0s"},
		{call: keeping(calls.UpdateRate, 20, time.Hour), reply: "true",
			keeps: "rate=20 interval=3600000 type=0 keepAliveTime=0; value 15; permits 2@40m0s 3@0s"},
		{call: keeping(calls.SetRateArgs, 7, 2*time.Hour), reply: calls.Done,
			keeps: "rate=7 interval=7200000 type=0 keepAliveTime=0; value 2; permits 2@40m0s 3@0s"},
		{call: keeping(calls.SetRateArgs, 7, 30*time.Minute), reply: calls.Done,
			keeps: "rate=7 interval=1800000 type=0 keepAliveTime=0; value 4; permits 3@0s"},
		{call: keeping(calls.UpdateRate, 10, time.Hour), reply: "true", keeps: ten + "; value 7; permits 3@0s"},
		{later: 10 * time.Minute, call: take(calls.TryAcquire, 7), reply: "true", keeps: ten + "; value 0; permits 3@10m0s 7@0s"},
	}},
	{"a limiter that is kept alive by its use", []step{
		{call: lasting(calls.TrySetRate, 2*time.Hour), reply: "true",
			keeps: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s"},
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 4), reply: "true",
			keeps: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s; value 6 ttl 2h0m0s; permits 4@0s ttl 2h0m0s"},
		{later: 30 * time.Minute, call: take(calls.TryAcquire, 7), reply: "false",
			keeps: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s; value 6 ttl 2h0m0s; permits 4@30m0s ttl 2h0m0s"},
		{later: 10 * time.Minute, call: just(calls.RemainTimeToLive), reply: "1h50m0s",
			keeps: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 1h50m0s; value 6 ttl 1h50m0s; permits 4@40m0s ttl 1h50m0s"},
		{later: 0, call: take(calls.Acquire, 6), reply: calls.Done,
			keeps: "rate=10 interval=3600000 type=0 keepAliveTime=7200000 ttl 2h0m0s; value 0 ttl 2h0m0s; permits 4@40m0s 6@0s ttl 2h0m0s"},
		{call: lasting(calls.SetRate, 3*time.Hour), reply: calls.Done,
			keeps: "rate=10 interval=3600000 type=0 keepAliveTime=10800000 ttl 3h0m0s"},
		{call: take(calls.TryAcquire, 6), reply: "true",
			keeps: "rate=10 interval=3600000 type=0 keepAliveTime=10800000 ttl 3h0m0s; value 4 ttl 3h0m0s; permits 6@0s ttl 3h0m0s"},
		{later: 4 * time.Hour, call: take(calls.TryAcquire, 1), reply: calls.NotInitialized, keeps: "nothing"},
	}},
	{"an expiry that is set, looked at and cleared", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: just(calls.RemainTimeToLive), reply: "-1", keeps: ten},
		{call: just(calls.ExpireTime), reply: "-1", keeps: ten},
		{call: just(calls.ExpireTime), reply: "-1", keeps: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.Expire, 5*time.Hour), reply: "true", keeps: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: just(calls.RemainTimeToLive), reply: "5h0m0s", keeps: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: just(calls.ExpireTime), reply: "5h0m0s", keeps: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: just(calls.ExpireTime), reply: "5h0m0s", keeps: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireAt, 6*time.Hour), reply: "true", keeps: ten + " ttl 6h0m0s; value 6 ttl 6h0m0s; permits 4@0s ttl 6h0m0s"},
		{call: expire(calls.ExpireAt, 7*time.Hour), reply: "true", keeps: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: just(calls.ClearExpire), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.ClearExpire), reply: "false", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.ClearExpire), reply: "false", keeps: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.Expire, 3*time.Hour), reply: "true", keeps: ten + " ttl 3h0m0s; value 6 ttl 3h0m0s; permits 4@0s ttl 3h0m0s"},
		{later: time.Hour, call: take(calls.TryAcquire, 10), reply: "true", keeps: ten + " ttl 2h0m0s; value 0 ttl 2h0m0s; permits 10@0s ttl 2h0m0s"},
		{call: just(calls.TryAcquireOne), reply: "false", keeps: ten + " ttl 2h0m0s; value 0 ttl 2h0m0s; permits 10@0s ttl 2h0m0s"},
		{later: 3 * time.Hour, call: just(calls.Exists), reply: "false", keeps: "nothing"},
	}},
	{"an expiry on conditions", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireIfSet, 5*time.Hour), reply: "false", keeps: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireAtIfSet, 5*time.Hour), reply: "false", keeps: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireIfGreater, 5*time.Hour), reply: "false", keeps: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireIfNotSet, 5*time.Hour), reply: "true", keeps: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireIfNotSet, 6*time.Hour), reply: "false", keeps: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireAtIfNotSet, 6*time.Hour), reply: "false", keeps: ten + " ttl 5h0m0s; value 6 ttl 5h0m0s; permits 4@0s ttl 5h0m0s"},
		{call: expire(calls.ExpireIfSet, 6*time.Hour), reply: "true", keeps: ten + " ttl 6h0m0s; value 6 ttl 6h0m0s; permits 4@0s ttl 6h0m0s"},
		{call: expire(calls.ExpireAtIfSet, 7*time.Hour), reply: "true", keeps: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireIfGreater, 6*time.Hour), reply: "false", keeps: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireAtIfGreater, 8*time.Hour), reply: "true", keeps: ten + " ttl 8h0m0s; value 6 ttl 8h0m0s; permits 4@0s ttl 8h0m0s"},
		{call: expire(calls.ExpireIfLess, 9*time.Hour), reply: "false", keeps: ten + " ttl 8h0m0s; value 6 ttl 8h0m0s; permits 4@0s ttl 8h0m0s"},
		{call: expire(calls.ExpireAtIfLess, 7*time.Hour), reply: "true", keeps: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireAtIfLess, 8*time.Hour), reply: "false", keeps: ten + " ttl 7h0m0s; value 6 ttl 7h0m0s; permits 4@0s ttl 7h0m0s"},
		{call: expire(calls.ExpireIfGreater, 8*time.Hour), reply: "true", keeps: ten + " ttl 8h0m0s; value 6 ttl 8h0m0s; permits 4@0s ttl 8h0m0s"},
		{call: just(calls.ClearExpire), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: expire(calls.ExpireAtIfNotSet, 2*time.Hour), reply: "true", keeps: ten + " ttl 2h0m0s; value 6 ttl 2h0m0s; permits 4@0s ttl 2h0m0s"},
		{call: expire(calls.ExpireIfLess, time.Hour), reply: "true", keeps: ten + " ttl 1h0m0s; value 6 ttl 1h0m0s; permits 4@0s ttl 1h0m0s"},
		{call: expire(calls.ExpireAtIfGreater, 30*time.Minute), reply: "false", keeps: ten + " ttl 1h0m0s; value 6 ttl 1h0m0s; permits 4@0s ttl 1h0m0s"},
		{call: just(calls.Delete), reply: "true", keeps: "nothing"},
	}},
	{"deleting", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Touch), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Touch), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.SizeInMemory), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.SizeInMemory), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Delete), reply: "true", keeps: "nothing"},
		{call: just(calls.Delete), reply: "false", keeps: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: just(calls.Delete), reply: "true", keeps: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: just(calls.Unlink), reply: "true", keeps: "nothing"},
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
	}},
	{"unlinking takes the state along in Go alone", []step{
		{call: setTen(calls.TrySetRate), reply: "true", keeps: ten},
		{call: take(calls.TryAcquire, 4), reply: "true", keeps: ten + "; value 6; permits 4@0s"},
		{call: just(calls.Unlink), reply: "true", keeps: "value 6; permits 4@0s", goKeeps: "nothing"},
	}},
}

// Every call has a story, so that none is forgotten.
func TestEveryCallIsInAStory(t *testing.T) {
	told := make(map[calls.Op]bool)
	for _, s := range stories {
		for _, st := range s.steps {
			told[st.call.Op] = true
		}
	}
	for _, op := range []calls.Op{calls.Copy, calls.CopyAndReplace} {
		told[op] = true // in TestRenameAndCopy, which looks at two limiters
	}
	told[calls.Take] = true // Redisson has no such call: the random sequences hold it to a model
	for _, op := range calls.Ops {
		assert.True(t, told[op], op)
	}
}

func TestGoAndJavaInTurn(t *testing.T) {
	var lack lacking
	eachVersion(t, func(t *testing.T, w *world) {
		for _, s := range stories {
			for _, client := range []bool{false, true} {
				kind := map[bool]string{false: "overall", true: "per client"}[client]
				t.Run(fmt.Sprintf("%s/%s", s.name, kind), func(t *testing.T) {
					name := w.version + "/" + s.name + "/" + kind
					golang, java := w.sides(name + "/go first")
					w.tell(t, s, name+"/go first", client, &lack, golang, java)
					golang, java = w.sides(name + "/java first")
					w.tell(t, s, name+"/java first", client, &lack, java, golang)
				})
			}
		}
	})
	lack.print(t)
}

// Releases 3.16.4 to 3.16.8 wrote the length of the random part in 8 bytes, and can read nothing else: neither our grants nor those of
// any later Redisson. We read theirs, as all others.
func TestGrantsOfTheOtherSideComeBack(t *testing.T) {
	eachVersion(t, func(t *testing.T, w *world) {
		ctx, name := t.Context(), w.version+"/come back"
		keys := state.KeysOf(name, w.java.ID())
		golang, java := w.sides(name)
		want := calls.Reply("true")
		if !calls.AtLeast(w.version, "3.17.0") {
			want = calls.ScriptError
		}
		for _, step := range []struct {
			by   calls.Side
			call calls.Call
			want calls.Reply
		}{
			{java, setTen(calls.SetRate), calls.Done},
			{java, take(calls.TryAcquire, 9), "true"},
			{golang, take(calls.TryAcquire, 9), "true"},
			{java, take(calls.TryAcquire, 9), want},
			{golang, take(calls.TryAcquire, 9), "true"},
		} {
			got, err := step.by.Do(ctx, step.call)
			require.NoError(t, err)
			require.Equal(t, step.want, got, "%v: %v", step.by, step.call)
			s, err := state.Read(ctx, w.redis, keys)
			require.NoError(t, err)
			t.Logf("%v: %v: %v", step.by, step.call, s)
			require.NoError(t, state.Age(ctx, w.redis, keys, 2*time.Hour))
		}
	})
}

// Clients with ids of their own share the rate's definition and nothing else.
func TestClientsCountApart(t *testing.T) {
	eachVersion(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		l := w.own.Limiter(w.version + "/apart")
		golang, java := calls.Go(l), calls.Java(w.java.Limiter(l.Name()))
		do := func(by calls.Side, call calls.Call, want calls.Reply) {
			t.Helper()
			got, err := by.Do(ctx, call)
			require.NoError(t, err)
			require.Equal(t, want, got, "%v: %v", by, call)
		}
		keeps := func(goKeeps, javaKeeps string) {
			t.Helper()
			for id, want := range map[string]string{w.own.ID(): goKeeps, w.java.ID(): javaKeeps} {
				s, err := state.Read(ctx, w.redis, state.KeysOf(l.Name(), id))
				require.NoError(t, err)
				shortenOwn(&s, &s.Client.ValueTTL)
				shortenOwn(&s, &s.Client.GrantsTTL)
				s.Config = nil
				require.Equal(t, want, s.String())
			}
		}
		call := setTen(calls.TrySetRate)
		call.PerClient = true
		do(java, call, "true")
		do(golang, call, "false")
		do(golang, take(calls.TryAcquire, 7), "true")
		keeps("client value 3; client permits 7@0s", "nothing")
		do(java, take(calls.TryAcquire, 10), "true")
		keeps("client value 3; client permits 7@0s", "client value 0; client permits 10@0s")
		do(golang, take(calls.TryAcquire, 4), "false")
		do(golang, take(calls.TryAcquire, 3), "true")
		do(java, just(calls.AvailablePermits), "0")
		do(golang, just(calls.AvailablePermits), "0")
		keeps("client value 0; client permits 7@0s 3@0s", "client value 0; client permits 10@0s")

		// A new rate starts the caller's own count anew and leaves the other's.
		call = rate(calls.SetRate, 5, time.Hour)
		call.PerClient = true
		do(golang, call, calls.Done)
		keeps("nothing", "client value 0; client permits 10@0s")
		do(java, take(calls.TryAcquire, 1), "false")
		do(golang, take(calls.TryAcquire, 5), "true")
		do(java, call, calls.Done)
		if calls.AtLeast(w.version, "3.27.0") {
			keeps("client value 0; client permits 5@0s", "nothing")
		} else {
			keeps("client value 0; client permits 5@0s", "client value 0; client permits 10@0s")
		}
		do(java, just(calls.Delete), "true")
		keeps("client value 0; client permits 5@0s", "nothing")
	})
}

// Copies and new names have the configuration; the state goes along in Go alone.
func TestRenameAndCopy(t *testing.T) {
	full := ten + "; value 6; permits 4@0s"
	tests := []struct {
		op               calls.Op
		target           string // what there is under the new name before: all, or nothing
		reply            calls.Reply
		goOld, goNew     string
		javaOld, javaNew string
	}{
		{op: calls.Rename, target: "nothing", reply: calls.Done, goOld: "nothing", goNew: full, javaOld: "value 6; permits 4@0s", javaNew: ten},
		{op: calls.RenameNX, target: "nothing", reply: "true", goOld: "nothing", goNew: full, javaOld: "value 6; permits 4@0s", javaNew: ten},
		{op: calls.RenameNX, target: "other", reply: "false", goOld: full, goNew: "other", javaOld: full, javaNew: "other"},
		{op: calls.Copy, target: "nothing", reply: "true", goOld: full, goNew: full, javaOld: full, javaNew: ten},
		{op: calls.Copy, target: "other", reply: "false", goOld: full, goNew: "other", javaOld: full, javaNew: "other"},
		{op: calls.CopyAndReplace, target: "nothing", reply: "true", goOld: full, goNew: full, javaOld: full, javaNew: ten},
		{op: calls.CopyAndReplace, target: "other", reply: "true", goOld: full, goNew: full, javaOld: full, javaNew: ten + "; value 1; permits 6@0s"},
		{op: calls.Rename, target: "other", reply: calls.Done, goOld: "nothing", goNew: full, javaOld: "value 6; permits 4@0s",
			javaNew: ten + "; value 1; permits 6@0s"},
	}
	const other = "rate=7 interval=3600000 type=0 keepAliveTime=0; value 1; permits 6@0s"
	eachVersion(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		for i, test := range tests {
			for _, by := range []string{"Go", "Java"} {
				t.Run(fmt.Sprintf("%s by %s onto %s", test.op, by, test.target), func(t *testing.T) {
					name := fmt.Sprintf("%s/%d/%s", w.version, i, by)
					newName := name + "/new"
					read := func(name string) string {
						s, err := state.Read(ctx, w.redis, state.KeysOf(name, w.java.ID()))
						require.NoError(t, err)
						return s.String()
					}
					golang, java := w.sides(name)
					set := func(by calls.Side, rate calls.Call, permits int64) {
						for _, call := range []calls.Call{rate, take(calls.TryAcquire, permits)} {
							_, err := by.Do(ctx, call)
							require.NoError(t, err)
						}
					}
					// What a limiter is made of was made by the other side, but for the fields that old releases do not write.
					set(golang, setTen(calls.SetRate), 4)
					require.Equal(t, full, read(name))
					if test.target == "other" {
						set(calls.Go(w.golang.Limiter(newName)), rate(calls.SetRate, 7, time.Hour), 6)
						require.Equal(t, other, read(newName))
					}
					side, wantOld, wantNew := golang, test.goOld, test.goNew
					if by == "Java" {
						side, wantOld, wantNew = java, test.javaOld, test.javaNew
					}
					if wantNew == "other" {
						wantNew = other
					}
					got, err := side.Do(ctx, calls.Call{Op: test.op, NewName: newName})
					if errors.Is(err, oracle.ErrUnsupported) {
						t.Logf("Redisson %s lacks %s", w.version, test.op)
						return
					}
					require.NoError(t, err)
					wantReply := test.reply
					if need, some := calls.Needs(side, test.op); some && w.server.Lacks(t, need) {
						wantReply, wantOld, wantNew = calls.Lacking, full, test.target
						if test.target == "other" {
							wantNew = other
						}
						// Where there is nothing to copy the server is not asked to.
						if by == "Go" && test.reply == "false" {
							wantReply = test.reply
						}
					}
					require.Equal(t, wantReply, got)
					require.Equal(t, wantOld, read(name))
					require.Equal(t, wantNew, read(newName))
				})
			}
		}
	})
}

// The waits are real, and short: each side is served once the permits that the other one took are back.
func TestWaitingForEachOther(t *testing.T) {
	eachVersion(t, func(t *testing.T, w *world) {
		for _, order := range []string{"Go waits for Java", "Java waits for Go"} {
			t.Run(order, func(t *testing.T) {
				const interval = 300 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				waits, takes := w.sides(w.version + "/" + order)
				if order == "Java waits for Go" {
					waits, takes = takes, waits
				}
				_, err := takes.Do(ctx, rate(calls.SetRate, 4, interval))
				require.NoError(t, err)
				for _, call := range []calls.Call{
					take(calls.Acquire, 4), just(calls.AcquireOne),
					until(calls.TryAcquireUntil, 4, 10*time.Second), until(calls.TryAcquireOneUntil, 0, 10*time.Second),
				} {
					// The wait begins with no permit left, so it cannot end before the interval has: the grant is older than its reply.
					_, err := takes.Do(ctx, take(calls.Acquire, 4))
					require.NoError(t, err)
					got, err := waits.Do(ctx, call)
					require.NoError(t, err, call)
					if waits.String() == "Java" && !calls.AtLeast(w.version, "3.17.0") {
						require.Equal(t, calls.ScriptError, got, "it cannot read our grants: %v", call)
						return
					}
					require.Contains(t, []calls.Reply{"true", calls.Done}, got, call)
					s, err := state.Read(ctx, w.redis, state.KeysOf(w.version+"/"+order, w.java.ID()))
					require.NoError(t, err)
					require.Len(t, s.Overall.Grants, 1, "the first grant has left: %v", s)
				}
			})
		}
	})
}
