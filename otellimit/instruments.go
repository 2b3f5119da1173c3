package otellimit

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// instruments is all that is measured.
type instruments struct {
	requests metric.Int64Counter
	permits  metric.Int64Counter
	hits     metric.Int64Counter
	duration metric.Float64Histogram
	inQueue  metric.Float64Histogram
	queued   metric.Int64UpDownCounter

	calls        metric.Int64Counter
	callRequests metric.Int64Histogram
	callDuration metric.Float64Histogram

	doorRequests metric.Int64Counter
	fallback     metric.Int64UpDownCounter
	reloads      metric.Int64Counter
}

// The boundaries of the histograms. What is decided in memory takes about a microsecond and a call to Redis tens of them to
// some milliseconds; both may take the ten seconds that a rueidis client waits by default. Those who wait do so for seconds, or for a
// minute where a policy's interval is one. A call carries at most 1,024 requests.
var (
	durations = []float64{
		0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	}
	waits   = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	crowds  = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	seconds = metric.WithUnit("s")
	request = metric.WithUnit("{request}")
)

// maker makes instruments and collects what is wrong with them.
type maker struct {
	meter metric.Meter
	errs  []error
}

func newInstruments(meter metric.Meter) (instruments, error) {
	m := maker{meter: meter}
	made := instruments{
		requests: m.counter("requests", "Requests for permits.", "{request}"),
		permits:  m.counter("permits", "Permits that were granted.", "{permit}"),
		hits:     m.counter("denial_cache.hits", "Requests that were denied from memory.", "{request}"),
		duration: m.histogram("request.duration", "How long requests for permits took, waits included.", durations),
		inQueue:  m.histogram("request.time_in_queue", "How long requests waited for permits, of those that did.", waits),
		queued:   m.upDown("queued_requests", "Requests that wait for permits now.", "{request}"),

		calls:        m.counter("redis.calls", "Calls to Redis that ask for permits.", "{call}"),
		callDuration: m.histogram("redis.call.duration", "How long those calls took.", durations),

		doorRequests: m.counter("door.requests", "What became of requests at the program's doors.", "{request}"),
		fallback:     m.upDown("fallback.active", "Doors that do without Redis now, since it fails.", "{limiter}"),
		reloads:      m.counter("rules.reloads", "Files of rules that were read.", "{reload}"),
	}
	var err error
	made.callRequests, err = meter.Int64Histogram("rratelimiter.redis.call.requests", request,
		metric.WithDescription("Requests that a call to Redis carried."), metric.WithExplicitBucketBoundaries(crowds...))
	m.check("redis.call.requests", made.callRequests, err)
	return made, errors.Join(m.errs...)
}

func (m *maker) check(name string, made any, err error) {
	if err == nil && made == nil {
		err = fmt.Errorf("a %T gives none", m.meter)
	}
	if err != nil {
		m.errs = append(m.errs, fmt.Errorf("otellimit: instrument rratelimiter.%s: %w", name, err))
	}
}

func (m *maker) counter(name, description, unit string) metric.Int64Counter {
	c, err := m.meter.Int64Counter("rratelimiter."+name, metric.WithDescription(description), metric.WithUnit(unit))
	m.check(name, c, err)
	return c
}

func (m *maker) upDown(name, description, unit string) metric.Int64UpDownCounter {
	c, err := m.meter.Int64UpDownCounter("rratelimiter."+name, metric.WithDescription(description), metric.WithUnit(unit))
	m.check(name, c, err)
	return c
}

func (m *maker) histogram(name, description string, boundaries []float64) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram("rratelimiter."+name, seconds, metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(boundaries...))
	m.check(name, h, err)
	return h
}
