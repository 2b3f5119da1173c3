package main

import (
	"context"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
)

// observedScenario compares an Observer with none.
func observedScenario() scenario {
	return scenario{
		part: "observer", title: "with an Observer, 256 callers", contenders: []string{"ours", "observed", "script"},
		load: load{callers: 256, names: names(1), maxPermits: 1, limit: generous, expect: allGranted},
	}
}

// observerTargets returns its targets.
func (r *results) observerTargets(add func(atLeast bool, want, got float64, format string, args ...any)) {
	if run, ok := r.find("observer", 256, allGranted); ok {
		add(true, 0.95, run.ratio("observed", "ours", rateOf).median, "%s: decisions per second to those without one",
			run.title)
	}
}

// openObserved sets every hook. They only read their arguments: the measurement is of the reports,
// and not of two processors that share a counter.
func openObserved(ctx context.Context, _ *bench, l load) (*session, error) {
	var odd atomic.Int64
	return openShared(ctx, l, rratelimiter.WithObserver(&rratelimiter.Observer{
		Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
			if d.Err != nil || d.Permits < 1 {
				odd.Add(1)
			}
		},
		RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) {
			if c.Err != nil || c.Requests < 1 {
				odd.Add(1)
			}
		},
		Waiting: func(_ context.Context, w rratelimiter.WaitingInfo) {
			if w.Length < 0 {
				odd.Add(1)
			}
		},
	}))
}
