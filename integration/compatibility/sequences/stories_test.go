package sequences_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// stories runs each row of the tables in docs/compatibility.md that the model has, and cases that
// random sequences have found, or rarely reach.
func (r *run) stories(t *testing.T) {
	const interval, soon = 20*time.Hour + half, 3*time.Hour + half
	type step struct {
		later  time.Duration // at least a tick
		event  *event
		byJava bool
		call   calls.Call
	}
	golang := func(call calls.Call) step { return step{call: call} }
	java := func(call calls.Call) step { return step{call: call, byJava: true} }
	try := func(permits int64) calls.Call { return calls.Call{Op: calls.TryAcquire, Permits: permits} }
	take := func(permits int64) calls.Call { return calls.Call{Op: calls.Take, Permits: permits} }
	ten := func(op calls.Op, perClient bool) calls.Call {
		return calls.Call{Op: op, Permits: 10, Interval: interval, PerClient: perClient}
	}
	rate := func(op calls.Op, permits int64) step {
		return golang(calls.Call{Op: op, Permits: permits, Interval: interval, KeepState: op == calls.UpdateRate})
	}
	just := func(op calls.Op) step { return golang(calls.Just(op)) }
	release := func(permits int64) step { return golang(calls.Of(calls.Release, permits)) }
	set, free := golang(ten(calls.TrySetRate, false)), just(calls.AvailablePermits)
	lasting := ten(calls.SetRate, false)
	lasting.KeepAlive = 30*time.Hour + half
	stories := map[string][]step{
		// The configuration is evicted and set again; the state still has its old TTL. Redisson's SET
		// removes the TTL of the value, and its set expires before its grants.
		"the state has a time to live, the configuration none": {
			golang(ten(calls.TrySetRate, false)), golang(try(4)), golang(calls.Call{Op: calls.Expire, Expiry: soon}),
			{event: &configEvicted}, java(ten(calls.TrySetRate, false)),
			golang(try(1)), golang(try(10)), golang(try(5)),
		},
		"the same with per-client state": {
			golang(ten(calls.TrySetRate, true)), golang(try(4)), java(calls.Call{Op: calls.Expire, Expiry: soon}),
			{event: &configEvicted}, java(ten(calls.TrySetRate, true)), golang(try(10)), golang(try(5)),
		},
		"an empty grant expires alone": {
			golang(ten(calls.TrySetRate, false)), java(try(0)), golang(try(3)),
			{later: 20 * time.Hour, call: try(2)}, golang(calls.Call{Op: calls.AvailablePermits}),
		},
		// The oldest grant was empty, and the reply to a caller of one permit had the time of its expiry.
		"Take after an empty grant": {
			golang(ten(calls.TrySetRate, false)), java(try(0)), golang(try(10)),
			golang(take(1)), golang(take(2)),
		},
		"no permits, fewer, and more than a member holds": {
			golang(calls.Call{Op: calls.TrySetRate, Permits: 1 << 34, Interval: interval}), golang(try(0)), golang(try(-5)),
			free, golang(try(1<<32 + 5)), free, {later: 20 * time.Hour, call: calls.Just(calls.AvailablePermits)},
		},
		"released permits": {set, golang(try(10)), release(10), free, golang(try(10)), release(4), free},
		"released, and their window ends": {set, golang(try(10)), java(calls.Of(calls.Release, 10)),
			{later: 20 * time.Hour, call: calls.Just(calls.AvailablePermits)}, golang(try(10)), golang(try(10))},
		"releases shrink the oldest grants": {set, golang(try(2)), golang(try(4)), golang(try(4)), release(5),
			golang(try(5))},
		"half of the released permits": {set, golang(try(4)), golang(try(4)), golang(try(2)),
			java(calls.Of(calls.Release, 8)), {later: 20*time.Hour - 2*tick, call: try(8)}, golang(try(8))},
		"the value is lost":    {set, golang(try(7)), {event: &valueEvicted}, free, golang(try(4)), golang(try(3))},
		"the grants are lost":  {set, golang(try(7)), {event: &permitsEvicted}, free, golang(try(10))},
		"a value above a rate": {set, golang(try(1)), {event: &rateLowered}, golang(try(4)), golang(try(3)), free},
		"a lower rate keeps the excess": {set, golang(try(3)), golang(try(7)), rate(calls.UpdateRate, 4), free,
			{later: 20*time.Hour - tick, call: try(3)}, free},
		"a failed trySetRate": {set, {event: &madeByOld}, golang(calls.KeepAlive(calls.TrySetRate, 2*time.Hour)),
			golang(try(1))},
		"a keep-alive ends": {golang(lasting), golang(try(1)), rate(calls.SetRate, 10), golang(try(1))},
		"a new type": {set, golang(try(4)), golang(ten(calls.SetRate, true)), golang(try(4)),
			rate(calls.UpdateRate, 10)},
		"renamed": {set, golang(try(4)), just(calls.Rename), set, golang(try(3)), just(calls.RenameNX),
			just(calls.Rename)},
		"copied": {just(calls.Copy), set, golang(try(4)), just(calls.Copy), golang(try(3)), just(calls.Copy),
			just(calls.CopyAndReplace)},
		"unlinked": {just(calls.Unlink), set, golang(try(4)), just(calls.Unlink), set, golang(try(1))},
		"touched":  {just(calls.Touch), set, golang(try(4)), just(calls.Touch), {event: &configEvicted}, just(calls.Touch)},
		"an expiry of some keys": {set, golang(try(4)), {event: &configExpires},
			golang(calls.Expiring(calls.ExpireIfNotSet, soon)), golang(calls.Expiring(calls.ExpireAtIfNotSet, soon))},
		"state of a client that expires": {golang(ten(calls.TrySetRate, true)), golang(try(4)),
			golang(calls.Expiring(calls.Expire, soon)), golang(calls.Expiring(calls.ExpireAt, 2*soon)), golang(try(4))},
	}
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r.random = rand.New(rand.NewPCG(0, 0))
			lp := r.newPair(name)
			for _, s := range steps {
				r.age(ctx, t, lp, max(tick, s.later))
				if s.event != nil {
					r.apply(ctx, t, lp, *s.event)
					continue
				}
				r.step(ctx, t, lp, r.read(ctx, t, lp.a), s.call, !s.byJava)
			}
		})
	}
}
