package otellimit

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

type instruments struct {
	requests metric.Int64Counter
	permits  metric.Int64Counter
	hits     metric.Int64Counter
	duration metric.Float64Histogram
	inQueue  metric.Float64Histogram
	queued   metric.Int64UpDownCounter
	held     metric.Int64UpDownCounter
	expired  metric.Int64Counter

	calls        metric.Int64Counter
	callRequests metric.Int64Histogram
	callDuration metric.Float64Histogram

	middlewareRequests metric.Int64Counter
	fallback           metric.Int64UpDownCounter
	reloads            metric.Int64Counter
}

// Bucket boundaries. A decision takes from a microsecond, from memory, to the ten seconds after which
// rueidis gives up by default. A wait takes up to the interval of the policy. A call carries at most
// 1,024 requests.
var (
	durations = []float64{
		0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
		0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	}
	waits   = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	batches = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// maker creates instruments and collects the errors.
type maker struct {
	meter metric.Meter
	err   error
}

func newInstruments(meter metric.Meter) (instruments, error) {
	m := maker{meter: meter}
	made := instruments{
		requests: m.counter("requests", "Requests for permits.", "{request}"),
		permits:  m.counter("permits", "Granted permits.", "{permit}"),
		hits:     m.counter("denial_cache.hits", "Requests denied from memory.", "{request}"),
		duration: m.histogram("request.duration", "Duration of requests for permits, waits included.", durations),
		inQueue:  m.histogram("request.time_in_queue", "Time in queue of requests that waited for permits.", waits),
		queued:   m.upDown("queued_requests", "Requests queued for permits now.", "{request}"),
		held:     m.upDown("held_places", "Places of calls in flight held now.", "{place}"),
		expired:  m.counter("expired_places", "Places that ended by their lease and not by a return.", "{place}"),

		calls:        m.counter("redis.calls", "Calls to Redis for permits.", "{call}"),
		callDuration: m.histogram("redis.call.duration", "Duration of calls to Redis for permits.", durations),

		middlewareRequests: m.counter("middleware.requests", "Requests of a middleware, by result.", "{request}"),
		fallback:           m.upDown("fallback.active", "Middleware that decides without Redis now.", "{limiter}"),
		reloads:            m.counter("rules.reloads", "Reloads of rules files.", "{reload}"),
	}
	var err error
	made.callRequests, err = meter.Int64Histogram("rratelimiter.redis.call.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests per call to Redis."), metric.WithExplicitBucketBoundaries(batches...))
	if err = errors.Join(m.err, err); err != nil {
		return made, fmt.Errorf("otellimit: create the instruments: %w", err)
	}
	return made, nil
}

func (m *maker) counter(name, description, unit string) metric.Int64Counter {
	c, err := m.meter.Int64Counter("rratelimiter."+name, metric.WithDescription(description), metric.WithUnit(unit))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) upDown(name, description, unit string) metric.Int64UpDownCounter {
	c, err := m.meter.Int64UpDownCounter("rratelimiter."+name, metric.WithDescription(description), metric.WithUnit(unit))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) histogram(name, description string, boundaries []float64) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram("rratelimiter."+name, metric.WithUnit("s"),
		metric.WithDescription(description), metric.WithExplicitBucketBoundaries(boundaries...))
	m.err = errors.Join(m.err, err)
	return h
}
