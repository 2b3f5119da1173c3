package sequences_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// event is a change of a limiter's state that is not a call.
type event struct {
	name    string
	command func(b func() rueidis.Builder, k state.Keys) rueidis.Completed
}

// The events: eviction, another client, an old release.
var (
	valueEvicted = event{"the value is evicted", func(b func() rueidis.Builder, k state.Keys) rueidis.Completed {
		return b().Del().Key(k[state.Value], k[state.ClientValue]).Build()
	}}
	permitsEvicted = event{"the permits are evicted", func(b func() rueidis.Builder, k state.Keys) rueidis.Completed {
		return b().Del().Key(k[state.Permits], k[state.ClientPermits]).Build()
	}}
	configEvicted = event{"the configuration is evicted",
		func(b func() rueidis.Builder, k state.Keys) rueidis.Completed {
			return b().Del().Key(k[state.Config]).Build()
		}}
	rateLowered = event{"another client sets a lower rate",
		func(b func() rueidis.Builder, k state.Keys) rueidis.Completed {
			return b().Eval().Script(`if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'rate', '4') end`).
				Numkeys(1).Key(k[state.Config]).Build()
		}}
	madeByOld = event{"a release before 3.38 made the limiter",
		func(b func() rueidis.Builder, k state.Keys) rueidis.Completed {
			return b().Hdel().Key(k[state.Config]).Field("keepAliveTime").Build()
		}}

	configExpires = event{"the configuration expires",
		func(b func() rueidis.Builder, k state.Keys) rueidis.Completed {
			return b().Pexpire().Key(k[state.Config]).Milliseconds((30*time.Hour + half).Milliseconds()).Build()
		}}

	events = []event{valueEvicted, permitsEvicted, configEvicted, rateLowered, madeByOld}
)

// apply applies an event to both limiters.
func (r *run) apply(ctx context.Context, t *testing.T, lp *limiterPair, e event) {
	t.Helper()
	lp.log("%s", e.name)
	lp.each(func(w *testLimiter) {
		err := r.redis.Do(ctx, e.command(r.redis.B, w.keys())).Error()
		if !rueidis.IsRedisNil(err) {
			require.NoError(t, err, lp)
		}
	})
}

// rate returns a call that sets a random rate.
func (r *run) rate(op calls.Op, lp *limiterPair) calls.Call {
	c := calls.Call{Op: op, PerClient: lp.client, Permits: 4 + r.random.Int64N(30),
		Interval: time.Duration(3+r.random.IntN(60))*tick + half}
	if lp.big {
		c.Permits = 1<<34 + r.random.Int64N(1<<34)
	}
	if calls.AtLeast(r.version, "3.38.0") && r.chance(25) {
		c.KeepAlive = c.Interval + time.Duration(r.random.IntN(20))*tick
	}
	if r.chance(8) {
		c.PerClient = !lp.client
	}
	return c
}

// choose returns the next call. Most calls change the state.
func (r *run) choose(lp *limiterPair, before outcome) calls.Call {
	if len(lp.next) > 0 {
		c := lp.next[0]
		lp.next = lp.next[1:]
		return c
	}
	v := viewOf(&before.main)
	if !v.there && r.chance(70) {
		c := r.rate(calls.TrySetRate, lp)
		if r.chance(40) {
			c.Op, c.KeepState = calls.SetRateArgs, r.chance(70)
		}
		return c
	}
	ours, theirs := protocolsOf(r.version)
	copied := before.clone()
	free, _ := (&model{State: &copied.main, now: time.Now().UnixMilli(), protocol: ours}).reclaim(viewOf(&copied.main))
	free = max(0, free)
	n := int64(1)
	switch {
	case free > 0 && r.chance(85):
		n += r.random.Int64N(max(1, min(free, 1+free*2/3)))
	case v.rate > 0 && r.chance(85):
		n += r.random.Int64N(v.rate)
	case r.chance(60):
		n = v.rate + 1
	default:
		n = -r.random.Int64N(2)
	}
	// No two expiries of a limiter are equal, even after several ticks: the order of two equal times
	// depends on the speed of the machine.
	lp.expiries++
	expiry := time.Duration(5+r.random.IntN(200))*tick + half + time.Duration(lp.expiries)*4*time.Second
	sum := 0
	for _, w := range weights {
		sum += w.weight
	}
	pick, op := r.random.IntN(sum), calls.Op("")
	for _, w := range weights {
		if op = w.op; pick < w.weight {
			break
		}
		pick -= w.weight
	}
	c := calls.Just(op)
	switch op {
	case calls.TryAcquire, calls.Take:
		c.Permits = n
	case calls.TryAcquireUntil:
		c.Permits, c.Timeout = n, 250*time.Millisecond
	case calls.Acquire:
		// Only if neither Go nor Java waits.
		c.Permits = n
		if now := time.Now(); ours.expected(c, before, now).reply != calls.Done ||
			theirs.expected(c, before, now).reply != calls.Done {
			c.Op = calls.TryAcquire
		}
	case calls.Release:
		c.Permits = n - 1
	case calls.TrySetRate, calls.SetRate:
		c = r.rate(op, lp)
	case calls.SetRateArgs, calls.UpdateRate:
		c = r.rate(op, lp)
		c.KeepState = r.chance(70)
	case calls.Expire, calls.ExpireIfSet, calls.ExpireIfNotSet, calls.ExpireIfGreater, calls.ExpireIfLess,
		calls.ExpireAt, calls.ExpireAtIfSet, calls.ExpireAtIfNotSet, calls.ExpireAtIfGreater, calls.ExpireAtIfLess:
		c.Expiry = expiry
	}
	return c
}

// weights is how often choose returns each call.
var weights = []struct {
	weight int
	op     calls.Op
}{
	{36, calls.TryAcquire}, {10, calls.Take}, {4, calls.TryAcquireUntil}, {8, calls.Acquire},
	{7, calls.AvailablePermits}, {6, calls.Release}, {3, calls.TrySetRate}, {4, calls.SetRate}, {4, calls.SetRateArgs},
	{4, calls.UpdateRate}, {2, calls.GetConfig}, {1, calls.Exists}, {1, calls.Delete}, {2, calls.Expire},
	{1, calls.ExpireIfSet}, {1, calls.ExpireIfNotSet}, {1, calls.ExpireIfGreater}, {1, calls.ExpireIfLess},
	{1, calls.ExpireAt}, {1, calls.ExpireAtIfSet}, {1, calls.ExpireAtIfNotSet}, {1, calls.ExpireAtIfGreater},
	{1, calls.ExpireAtIfLess},
	{4, calls.ClearExpire}, {1, calls.Unlink}, {1, calls.Touch}, {2, calls.Rename}, {2, calls.RenameNX},
	{2, calls.Copy}, {2, calls.CopyAndReplace},
}
