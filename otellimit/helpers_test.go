package otellimit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rratelimiter/rratelimiter"
)

// bench is a Telemetry whose measurements a test can read.
type bench struct {
	*Telemetry
	t      testing.TB
	reader *sdkmetric.ManualReader
	meters *sdkmetric.MeterProvider
	tracer *trace.TracerProvider
	spans  *tracetest.SpanRecorder
}

func setUp(t testing.TB, opts ...Option) bench {
	b := bench{t: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	b.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
	b.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(b.spans))
	var err error
	b.Telemetry, err = New(append([]Option{WithMeterProvider(b.meters), WithTracerProvider(b.tracer)}, opts...)...)
	require.NoError(t, err)
	return b
}

// metrics returns all measurements by the name of the instrument without "rratelimiter.".
func (b bench) metrics() map[string]metricdata.Metrics {
	var all metricdata.ResourceMetrics
	require.NoError(b.t, b.reader.Collect(context.Background(), &all))
	byName := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		require.Equal(b.t, scope, s.Scope.Name)
		for _, m := range s.Metrics {
			byName[m.Name[len("rratelimiter."):]] = m
		}
	}
	return byName
}

// sums returns the points of a counter by their attributes:
// "rratelimiter.policy=redisson,rratelimiter.result=acquired".
func (b bench) sums(name string) map[string]int64 {
	points := map[string]int64{}
	data, _ := b.metrics()[name].Data.(metricdata.Sum[int64])
	for _, p := range data.DataPoints {
		points[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
	}
	return points
}

// granted returns a decision as the engine reports it.
func granted(name, policy string) rratelimiter.DecisionInfo {
	return rratelimiter.DecisionInfo{
		Name: name, Policy: policy, Permits: 1, Granted: true, Took: 200 * time.Microsecond, Source: rratelimiter.FromRedis,
	}
}

func denied(name, policy string) rratelimiter.DecisionInfo {
	d := granted(name, policy)
	d.Granted = false
	return d
}

func broken(name, policy string, err error) rratelimiter.DecisionInfo {
	d := denied(name, policy)
	d.Err, d.Source = err, rratelimiter.FromNone
	return d
}

// waited returns a decision with its times.
func waited(d rratelimiter.DecisionInfo, took, queued time.Duration) rratelimiter.DecisionInfo {
	d.Took, d.Waited = took, queued
	return d
}

var errSecret = errors.New(`dial tcp 10.0.0.7:6379: "tenant-7"`)

// ended returns a context that ended with err.
func ended(err error) context.Context {
	if errors.Is(err, context.DeadlineExceeded) {
		ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
		defer cancel()
		return ctx
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
