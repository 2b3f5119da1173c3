package otellimit

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/rratelimiter/rratelimiter"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/rratelimiter/rratelimiter/otellimit"

// Telemetry is the instruments of a program. One is enough for all its Clients and doors, and it needs no Close: what it
// has measured is the providers' to flush, and after their shutdown it measures nothing. It is safe for concurrent use.
// Its zero value is of no use; [New] makes one.
type Telemetry struct {
	instruments
	tracer     trace.Tracer
	spansAfter time.Duration
	names      names
	subjects   subjects
	rules      *sets
}

// Option is a setting of a [Telemetry], for [New].
type Option func(*settings)

type settings struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	spansAfter time.Duration
	names      []string
}

// WithMeterProvider sets where the instruments come from. By default that is [otel.GetMeterProvider], which may also be set
// after New.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(s *settings) { s.meters = provider }
}

// WithTracerProvider sets where spans go. By default that is [otel.GetTracerProvider], which may also be set after New.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(s *settings) { s.tracers = provider }
}

// DefaultSpansAfter is how long a call has to wait for a span of its own, unless [WithSpansAfter] says otherwise.
const DefaultSpansAfter = 5 * time.Millisecond

// WithSpansAfter sets how long a call has to wait for permits to have a span of its own, [DefaultSpansAfter] by default; with 0 each
// that does has one. Who asks Acquire for permits that are free waits for Redis alone, and has none.
func WithSpansAfter(wait time.Duration) Option {
	return func(s *settings) { s.spansAfter = wait }
}

// WithLimiterNames adds the attribute rratelimiter.limiter for the limiters of these names, and for no others. A name that ends
// with an asterisk is one value for all that begin as it does: "web:*" for the clients of a website. Of several that fit, an exact
// name comes before the longest beginning.
//
// Each name is a series of its own in most instruments, some ten with its results, and the SDK keeps 2,000 of an instrument. So
// name what is told apart by hand, some ten or hundred limiters, and never one for each user.
func WithLimiterNames(names ...string) Option {
	return func(s *settings) { s.names = append(s.names, names...) }
}

// New makes the instruments. It fails where a provider is nil or makes what is of no use, and where a name to be told cannot be
// one. What works here never panics later: a provider that does is told of to [otel.Handle], and the limiter's caller has its
// result.
func New(opts ...Option) (_ *Telemetry, err error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), spansAfter: DefaultSpansAfter}
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	if s.meters == nil {
		return nil, errors.New("otellimit: the MeterProvider is nil: leave WithMeterProvider out, or give it one")
	}
	if s.tracers == nil {
		return nil, errors.New("otellimit: the TracerProvider is nil: leave WithTracerProvider out, or give it one")
	}
	told, err := newNames(s.names)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil { // as that of a nil pointer does
			err = fmt.Errorf("otellimit: the MeterProvider (%T) or the TracerProvider (%T) is of no use: %v", s.meters, s.tracers, p)
		}
	}()
	meter, tracer := s.meters.Meter(scope), s.tracers.Tracer(scope)
	if meter == nil {
		return nil, fmt.Errorf("otellimit: the MeterProvider (%T) gives no Meter", s.meters)
	}
	if tracer == nil {
		return nil, fmt.Errorf("otellimit: the TracerProvider (%T) gives no Tracer", s.tracers)
	}
	made, err := newInstruments(meter)
	if err != nil {
		return nil, err
	}
	return &Telemetry{instruments: made, tracer: tracer, spansAfter: s.spansAfter, names: told, rules: newSets(subject{})}, nil
}

// Observer is what [rratelimiter.WithObserver] needs, a new one at each call: a program with hooks of its own can put them around
// these.
func (t *Telemetry) Observer() *rratelimiter.Observer {
	return &rratelimiter.Observer{Decision: t.decision, RedisCall: t.redisCall, Waiting: t.waiting}
}

// survive keeps what a provider panics with from the caller of a limiter. It is to be deferred.
func survive() {
	if p := recover(); p != nil {
		otel.Handle(fmt.Errorf("otellimit: a measurement panicked: %v", p))
	}
}
