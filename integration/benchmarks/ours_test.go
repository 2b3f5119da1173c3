package benchmarks

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	policies "github.com/rratelimiter/rratelimiter/limit"
)

const ours = "rratelimiter"

// ourLibraries are this library's limiters of Redisson's layout.
var ourLibraries = []library{
	{ours, true, openOurs()},
	{ours + "+flushdelay", true, func(b testing.TB, _ *server, l load) session {
		redis := dialWith(b, rueidis.ClientOption{InitAddress: []string{l.addr}, MaxFlushDelay: flushDelay})
		return ourSession(b, redis, rratelimiter.New(redis), l)
	}},
	{ours + "+denialcache", true, openOurs(rratelimiter.WithDenialCache(time.Minute))},
	{ours + "+observer", true, openOurs(observer())},
	{ours + "+prefetch10ms", true, openOurs(rratelimiter.WithPrefetch(10 * time.Millisecond))},
	{ours + "+prefetch1s", true, openOurs(rratelimiter.WithPrefetch(time.Second))},
	// Without the link that the others of its benchmark have.
	{ours + "+prefetch10ms+nolink", true, func(b testing.TB, redis *server, l load) session {
		l.addr = redis.addr
		return openOurs(rratelimiter.WithPrefetch(10*time.Millisecond))(b, redis, l)
	}},
	{ours + "+unshared", true, openUnshared},
}

func openOurs(options ...rratelimiter.Option) func(b testing.TB, _ *server, l load) session {
	return func(b testing.TB, _ *server, l load) session {
		redis := dial(b, l.addr)
		return ourSession(b, redis, rratelimiter.New(redis, options...), l)
	}
}

func ourSession(b testing.TB, redis rueidis.Client, client *rratelimiter.Client, l load) session {
	setRates(b, redis, l)
	limiters := make([]*rratelimiter.Limiter, len(l.names))
	for i, name := range l.names {
		limiters[i] = client.Limiter(name)
	}
	return session{
		take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			return limiters[name].TryAcquire(ctx, permits)
		},
		settle: func(b *testing.B) {
			require.NoError(b, client.Flush(context.Background()))
			time.Sleep(50 * time.Millisecond) // a call that brings one more prefetch may be in flight, and releases it
		},
	}
}

// openUnshared gives each caller a Client of its own on one connection pool, so that no two share a
// call.
func openUnshared(b testing.TB, _ *server, l load) session {
	redis := dial(b, l.addr)
	setRates(b, redis, l)
	clients := make([]*rratelimiter.Client, l.callers)
	for i := range clients {
		clients[i] = rratelimiter.New(redis)
	}
	return session{take: func(ctx context.Context, caller, name int, permits int64) (bool, error) {
		return clients[caller].Limiter(l.names[name]).TryAcquire(ctx, permits)
	}}
}

// observer sets every hook. They only read their arguments: the benchmark is of the reports, and not
// of two processors that share a counter.
func observer() rratelimiter.Option {
	var odd atomic.Int64
	countIf := func(isOdd bool) {
		if isOdd {
			odd.Add(1)
		}
	}
	return rratelimiter.WithObserver(&rratelimiter.Observer{
		Decision:  func(_ context.Context, d rratelimiter.DecisionInfo) { countIf(d.Err != nil || d.Permits < 1) },
		RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) { countIf(c.Err != nil || c.Requests < 1) },
		Waiting:   func(_ context.Context, w rratelimiter.WaitingInfo) { countIf(w.Change == 0) },
	})
}

// The policies of package limit, each with as many permits an interval as a generous limit.
var (
	fixedWindow   = policies.FixedWindow{Permits: generous.permits, Interval: generous.interval}
	slidingWindow = policies.SlidingWindow{Permits: generous.permits, Interval: generous.interval}
	slidingLog    = policies.SlidingLog{Permits: generous.permits, Interval: generous.interval}
	tokenBucket   = policies.TokenBucket{
		Capacity: generous.permits, Refill: generous.permits, Interval: generous.interval}
	leakyBucket = policies.LeakyBucket{
		Capacity: generous.permits, Leak: generous.permits, Interval: generous.interval}
	smooth = policies.Smooth{Permits: generous.permits, Interval: generous.interval, Burst: generous.interval}
)

var policyLibraries = []library{
	{key: "FixedWindow", open: openPolicies(fixedWindow)},
	{key: "FixedWindow+flushdelay", open: openDelayed(fixedWindow)},
	{key: "SlidingWindow", open: openPolicies(slidingWindow)},
	{key: "SlidingLog", open: openPolicies(slidingLog)},
	{key: "TokenBucket", open: openPolicies(tokenBucket)},
	{key: "TokenBucket+flushdelay", open: openDelayed(tokenBucket)},
	{key: "LeakyBucket", open: openPolicies(leakyBucket)},
	{key: "Smooth", open: openPolicies(smooth)},
	{key: "FixedWindow+TokenBucket", open: openPolicies(fixedWindow, tokenBucket)},
}

// openPolicies opens a limiter for one name, and a Keyed for several.
func openPolicies(of ...policies.Policy) func(b testing.TB, _ *server, l load) session {
	return openWith(0, of...)
}

// openDelayed is openPolicies with a flush delay.
func openDelayed(of ...policies.Policy) func(b testing.TB, _ *server, l load) session {
	return openWith(flushDelay, of...)
}

func openWith(delay time.Duration, of ...policies.Policy) func(b testing.TB, _ *server, l load) session {
	return func(b testing.TB, _ *server, l load) session {
		client := rratelimiter.New(dialWith(b, rueidis.ClientOption{InitAddress: []string{l.addr}, MaxFlushDelay: delay}))
		if len(l.names) == 1 {
			limiter := policies.New(client, l.names[0], of...)
			return session{take: func(ctx context.Context, _, _ int, permits int64) (bool, error) {
				return limiter.TryAcquire(ctx, permits)
			}}
		}
		keyed := policies.NewKeyed(client, "policies", of...)
		return session{take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			return keyed.TryAcquire(ctx, l.names[name], permits)
		}}
	}
}
