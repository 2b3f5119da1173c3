package otellimit

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rratelimiter/rratelimiter"
)

func (t *Telemetry) decision(ctx context.Context, d rratelimiter.DecisionInfo) {
	defer survive()
	l := t.labels(d.Policy, d.Name)
	plain := t.registry.of(l)
	l.result, l.failure = resultOf(ctx, d)
	m := t.registry.of(l)
	t.requests.Add(ctx, 1, m.add...)
	t.duration.Record(ctx, d.Took.Seconds(), m.record...)
	if d.Granted {
		t.permits.Add(ctx, d.Permits, plain.add...)
	} else if d.Source == rratelimiter.FromMemory {
		t.hits.Add(ctx, 1, plain.add...)
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
	l := t.labels(c.Policy, c.Name)
	l.failure = classify(c.Err)
	m := t.registry.of(l)
	t.calls.Add(ctx, 1, m.add...)
	t.callRequests.Record(ctx, int64(c.Requests), m.record...)
	t.callDuration.Record(ctx, c.Took.Seconds(), m.record...)
}

func (t *Telemetry) waiting(ctx context.Context, w rratelimiter.WaitingInfo) {
	defer survive()
	t.queued.Add(ctx, int64(w.Change), t.registry.of(t.labels(w.Policy, w.Name)).add...)
}

func (t *Telemetry) labels(policy, name string) labels {
	return labels{policy: policy, limiter: t.names.of(name)}
}

// span records a call that waited as a child of the caller's span, with the times of the call.
func (t *Telemetry) span(ctx context.Context, d rratelimiter.DecisionInfo, m *measured) {
	end := time.Now()
	_, span := t.tracer.Start(ctx, "rratelimiter.wait",
		trace.WithTimestamp(end.Add(-d.Took)),
		trace.WithAttributes(m.attrs...),
		trace.WithAttributes(permitsKey.Int64(d.Permits)))
	if d.Err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(end))
}

// resultOf returns the result of a decision and the kind of its error. A caller whose context ended,
// or whose deadline is unreachable, has cancelled. A timeout while the context goes on is a failure.
func resultOf(ctx context.Context, d rratelimiter.DecisionInfo) (result, failure) {
	switch {
	case d.Err == nil && d.Charged:
		return charged, ""
	case d.Err == nil && d.Granted:
		return acquired, ""
	case d.Err == nil:
		return rejected, ""
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
