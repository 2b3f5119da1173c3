package otellimit

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
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
		registry: registry{made: make(map[labels]*measured)},
	}, nil
}

// Observer returns hooks for [rratelimiter.WithObserver]. Each call returns a new Observer, which a
// program may wrap with hooks of its own.
func (t *Telemetry) Observer() *rratelimiter.Observer {
	return &rratelimiter.Observer{Decision: t.decision, RedisCall: t.redisCall, Waiting: t.waiting}
}

// survive reports a provider's panic to [otel.Handle] instead of the limiter's caller. It is deferred.
func survive() {
	if p := recover(); p != nil {
		otel.Handle(fmt.Errorf("otellimit: a measurement panicked: %v", p))
	}
}
