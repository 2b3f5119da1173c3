package sequences_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// stories runs cases that random sequences have found, or rarely reach.
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
