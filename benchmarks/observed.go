package main

import (
	"context"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
)

// observedScenario is what an Observer costs, beside nobody who is told.
func observedScenario() scenario {
	return scenario{
		part: "observer", title: "with an Observer, 256 callers", sides: []string{"ours", "observed", "script"},
		load: load{callers: 256, names: names(1), maxPermits: 1, limit: generous, expect: allGranted},
	}
}

// observerGoals is what of it is to be reached.
func (r *results) observerGoals(add func(atLeast bool, want, got float64, format string, args ...any)) {
	if run, ok := r.find("observer", 256, allGranted); ok {
		add(true, 0.95, run.ratio("observed", "ours", rateOf).median, "%s: decisions a second to those without one", run.title)
	}
}

// openObserved sets every hook, each of which counts, as one that keeps metrics does.
func openObserved(ctx context.Context, _ *bench, l load) (*session, error) {
	var decisions, permits, calls, requests, waiting atomic.Int64
	return openShared(ctx, l, rratelimiter.WithObserver(&rratelimiter.Observer{
		Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
			decisions.Add(1)
			if d.Granted {
				permits.Add(d.Permits)
			}
		},
		RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) {
			calls.Add(1)
			requests.Add(int64(c.Requests))
		},
		Waiting: func(_ context.Context, w rratelimiter.WaitingInfo) { waiting.Add(int64(w.Change)) },
	}))
}
