package otellimit

import (
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter"
)

func (t *Telemetry) decision(ctx context.Context, d rratelimiter.DecisionInfo) {
	defer survive()
	sets := t.setsOf(d.Policy, d.Name)
	m := sets.with(resultOf(ctx, d))
	t.requests.Add(ctx, 1, m.add...)
	t.duration.Record(ctx, d.Took.Seconds(), m.record...)
	if d.Granted {
		t.permits.Add(ctx, d.Permits, sets.with(noResult, noFailure).add...)
	} else if d.Source == rratelimiter.FromMemory {
		t.hits.Add(ctx, 1, sets.with(noResult, noFailure).add...)
	}
	if d.Waited > 0 {
		t.inQueue.Record(ctx, d.Waited.Seconds(), m.record...)
		if d.Waited >= t.spansAfter {
			t.span(ctx, d, m)
		}
	}
}

func (t *Telemetry) redisCall(ctx context.Context, c rratelimiter.RedisCallInfo) {
	defer survive()
	m := t.setsOf(c.Policy, c.Name).with(noResult, classify(c.Err))
	t.calls.Add(ctx, 1, m.add...)
	t.callRequests.Record(ctx, int64(c.Requests), m.record...)
	t.callDuration.Record(ctx, c.Took.Seconds(), m.record...)
}

func (t *Telemetry) waiting(ctx context.Context, w rratelimiter.WaitingInfo) {
	defer survive()
	t.queued.Add(ctx, int64(w.Change), t.setsOf(w.Policy, w.Name).with(noResult, noFailure).add...)
}

func (t *Telemetry) setsOf(policy, name string) *attributeSets {
	return t.registry.of(source{policy: policy, limiter: t.names.of(name)})
}

// resultOf returns the result of a decision and the kind of its error. A caller whose context ended,
// or whose deadline is unreachable, has cancelled. A timeout while the context goes on is a failure.
func resultOf(ctx context.Context, d rratelimiter.DecisionInfo) (result, failure) {
	switch {
	case d.Err == nil && d.Charged:
		return charged, noFailure
	case d.Err == nil && d.Granted:
		return acquired, noFailure
	case d.Err == nil:
		return rejected, noFailure
	}
	f, ended := classify(d.Err), ctx.Err()
	if ended == nil {
		if _, bound := ctx.Deadline(); bound {
			ended = context.DeadlineExceeded
		}
	}
	if ended != nil && errors.Is(d.Err, ended) {
		return gaveUp, f
	}
	return failed, f
}
