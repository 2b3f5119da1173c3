package main

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/rratelimiter/rratelimiter/otellimit"
)

// metrics exports requests, limits and Redis calls to Prometheus by OpenTelemetry. No label has a value
// that a client can invent, such as an address or a path.
type metrics struct {
	registry   *prometheus.Registry
	telemetry  *otellimit.Telemetry
	middleware *otellimit.Middleware
	seconds    metric.Float64Histogram
}

func newMetrics() (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry()}
	reader, err := exporter.New(exporter.WithRegisterer(m.registry),
		exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	if m.telemetry, err = otellimit.New(otellimit.WithMeterProvider(provider)); err != nil {
		return nil, err
	}
	m.middleware = m.telemetry.Middleware("gateway")
	m.seconds, err = provider.Meter("gateway").Float64Histogram("http.server.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of requests, responses included."),
		metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10))
	return m, err
}

// served records a finished request.
func (m *metrics) served(route string, status int, took time.Duration) {
	m.seconds.Record(context.Background(), took.Seconds(),
		metric.WithAttributes(attribute.String("http.route", route), attribute.Int("http.response.status_code", status)))
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
