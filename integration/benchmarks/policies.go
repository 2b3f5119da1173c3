package main

import (
	"context"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	policies "github.com/rratelimiter/rratelimiter/limit"
)

// windowLibraries and bucketLibraries are the peers of a policy, in all their ways.
var (
	windowLibraries = []string{"rueidislimiter", "rueidislimiter-pool", "rueidislimiter-delay", "redisstore", "ulule",
		"ulule-auto", "ulule-many", "ulule-delay"}
	bucketLibraries = []string{"redis_rate", "redis_rate-auto", "redis_rate-many", "redis_rate-delay", "throttled"}
	ourPolicies     = []string{"fixed", "sliding", "log", "bucket", "leaky", "smooth", "both"}
)

// policyScenarios compare the policies with their peers.
func policyScenarios() []scenario {
	who := slices.Concat(ourPolicies, []string{"script"}, windowLibraries, bucketLibraries, []string{"empty"})
	lone := slices.DeleteFunc(slices.Clone(who),
		func(key string) bool { return slices.Contains(autoPipelined, key) || slices.Contains(tuned, key) })
	var all []scenario
	for _, many := range []struct {
		title          string
		callers, names int
		contenders     []string
	}{{"1 caller", 1, 1, lone}, {"256 callers", 256, 1, who}, {"10,000 names, 256 callers", 256, 10_000, who}} {
		all = append(all, scenario{
			part: "policies", title: "policies, " + many.title, contenders: many.contenders,
			load: load{callers: many.callers, names: names(many.names), maxPermits: 1, limit: generous, expect: allGranted,
				warmup: warmupOf(many.names)},
		})
	}
	return all
}

// policyTargets returns their targets.
func (r *results) policyTargets(add func(atLeast bool, want, got float64, format string, args ...any)) {
	for _, run := range r.runs {
		if run.part != "policies" || run.load.callers != 256 {
			continue
		}
		if len(run.load.names) == 1 {
			for _, key := range ourPolicies {
				add(true, 12, run.ratio(key, "script", rateOf).median, "%s, %s: decisions per second to Redisson's script",
					run.title, titleOf(key))
			}
			add(true, 6, run.best("fixed", windowLibraries),
				"%s, FixedWindow: decisions per second to the best other fixed window", run.title)
			add(true, 10, run.best("bucket", bucketLibraries),
				"%s, TokenBucket: decisions per second to the best other bucket", run.title)
			continue
		}
		add(true, 1, run.best("fixed", windowLibraries),
			"%s, FixedWindow: decisions per second to the best other fixed window", run.title)
		add(true, 1.5, run.best("bucket", bucketLibraries),
			"%s, TokenBucket: decisions per second to the best other bucket", run.title)
	}
	if r.script == nil {
		return
	}
	for _, c := range r.script.cases {
		if c.name == "a grant by FixedWindow" || c.name == "a grant by TokenBucket" {
			add(false, 0.8, r.script.ratio(c.name).median, "server time of one call, %s: to a grant of Redisson's script",
				c.name)
		}
	}
}

func titleOf(key string) string {
	return contenders[slices.IndexFunc(contenders, func(s contender) bool { return s.key == key })].title
}

// The policies of package limit, as many permits an interval as the load has.

func fixedWindow(l limit) []policies.Policy {
	return []policies.Policy{policies.FixedWindow{Permits: l.permits, Interval: l.interval}}
}

func tokenBucket(l limit) []policies.Policy {
	return []policies.Policy{policies.TokenBucket{Capacity: l.permits, Refill: l.permits, Interval: l.interval}}
}

func slidingWindow(l limit) []policies.Policy {
	return []policies.Policy{policies.SlidingWindow{Permits: l.permits, Interval: l.interval}}
}

func slidingLog(l limit) []policies.Policy {
	return []policies.Policy{policies.SlidingLog{Permits: l.permits, Interval: l.interval}}
}

func leakyBucket(l limit) []policies.Policy {
	return []policies.Policy{policies.LeakyBucket{Capacity: l.permits, Leak: l.permits, Interval: l.interval}}
}

func smooth(l limit) []policies.Policy {
	return []policies.Policy{policies.Smooth{Permits: l.permits, Interval: l.interval, Burst: l.interval}}
}

// both is two policies at once.
func both(l limit) []policies.Policy { return append(fixedWindow(l), tokenBucket(l)...) }

func openPolicies(of func(limit) []policies.Policy) opener {
	return func(_ context.Context, _ *bench, l load) (*session, error) {
		redis, err := dial(l.addr)
		if err != nil {
			return nil, err
		}
		client, all := rratelimiter.New(redis), of(l.limit)
		limiters := make([]*policies.Limiter, len(l.names))
		for i, name := range l.names {
			limiters[i] = policies.New(client, name, all...)
		}
		return &session{
			take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
				return limiters[name].TryAcquire(ctx, permits)
			},
			close: redis.Close,
		}, nil
	}
}
