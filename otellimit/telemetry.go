package otellimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/rratelimiter/rratelimiter"
)

const scope = "github.com/rratelimiter/rratelimiter/otellimit"

// Telemetry has the instruments of a program. One serves all Clients and middleware. It needs no Close:
// the providers flush its measurements, and it measures nothing after their shutdown. It is safe for
// concurrent use. Create it with [New]; the zero value is invalid.
type Telemetry struct {
	instruments
	tracer     trace.Tracer
	spansAfter time.Duration
	names      limiterNames
	registry   registry
}

// Option is a setting of a [Telemetry], for [New].
type Option func(*settings)

type settings struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	spansAfter time.Duration
	names      []string
}

// WithMeterProvider sets the provider of the instruments. The default is [otel.GetMeterProvider],
// which may be set after New.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(s *settings) { s.meters = provider }
}

// WithTracerProvider sets the provider of spans. The default is [otel.GetTracerProvider], which may
// be set after New.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(s *settings) { s.tracers = provider }
}

// WithSpansAfter sets the wait for permits from which on a call has a span, by default 5 ms. With 0 every
// call that waits has one. An Acquire of free permits does not wait.
func WithSpansAfter(wait time.Duration) Option {
	return func(s *settings) { s.spansAfter = wait }
}

// WithLimiterNames adds the attribute rratelimiter.limiter for limiters with these names. A name that
// ends with an asterisk is one value for all names with this prefix, such as "web:*" for the clients
// of a website. An exact name takes precedence over prefixes, and a longer prefix over a shorter one.
//
// Each name adds about ten series to most instruments, and the SDK keeps 2,000 per instrument. List
// some tens or hundreds of limiters, never one per user.
func WithLimiterNames(names ...string) Option {
	return func(s *settings) { s.names = append(s.names, names...) }
}

// New creates the instruments. It fails if a provider is nil or panics, if the MeterProvider rejects an
// instrument, and if a name of [WithLimiterNames] is invalid. A provider that panics later does not affect
// the limiter's caller: the panic goes to [otel.Handle].
func New(opts ...Option) (telemetry *Telemetry, err error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), spansAfter: 5 * time.Millisecond}
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	listed, err := newNames(s.names)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil { // for example, a provider that is nil
			err = fmt.Errorf("otellimit: the MeterProvider (%T) or the TracerProvider (%T) panicked: %v", s.meters, s.tracers, p)
		}
	}()
	made, err := newInstruments(s.meters.Meter(scope))
	if err != nil {
		return nil, err
	}
	return &Telemetry{
		instruments: made, tracer: s.tracers.Tracer(scope), spansAfter: s.spansAfter, names: listed,
		registry: registry{made: make(map[labels]*attributeSet)},
	}, nil
}

// Observer returns hooks for [rratelimiter.WithObserver]. Each call returns a new Observer, which a
// program may wrap with hooks of its own.
func (t *Telemetry) Observer() *rratelimiter.Observer {
	return &rratelimiter.Observer{Decision: t.decision, RedisCall: t.redisCall, Waiting: t.waiting, Places: t.places}
}

// survive reports a provider's panic to [otel.Handle] instead of the limiter's caller. It is deferred.
func survive() {
	if p := recover(); p != nil {
		otel.Handle(fmt.Errorf("otellimit: a measurement panicked: %v", p))
	}
}

func (t *Telemetry) decision(ctx context.Context, d rratelimiter.DecisionInfo) {
	defer survive()
	l := t.labels(d.Policy, d.Name)
	plain := t.registry.get(l)
	l.result, l.failure = resultOf(ctx, d)
	m := t.registry.get(l)
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
	m := t.registry.get(l)
	t.calls.Add(ctx, 1, m.add...)
	t.callRequests.Record(ctx, int64(c.Requests), m.record...)
	t.callDuration.Record(ctx, c.Took.Seconds(), m.record...)
}

func (t *Telemetry) waiting(ctx context.Context, w rratelimiter.WaitingInfo) {
	defer survive()
	t.queued.Add(ctx, int64(w.Change), t.registry.get(t.labels(w.Policy, w.Name)).add...)
}

func (t *Telemetry) places(p rratelimiter.PlacesInfo) {
	defer survive()
	m := t.registry.get(labels{limiter: t.names.valueOf(p.Name)})
	if p.Change != 0 {
		t.held.Add(context.Background(), int64(p.Change), m.add...)
	}
	if p.Expired > 0 {
		t.expired.Add(context.Background(), int64(p.Expired), m.add...)
	}
}

func (t *Telemetry) labels(policy, name string) labels {
	return labels{policy: policy, limiter: t.names.valueOf(name)}
}

// span records a call that waited as a child of the caller's span, with the times of the call.
func (t *Telemetry) span(ctx context.Context, d rratelimiter.DecisionInfo, m *attributeSet) {
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
