package otellimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// providers lists where measurements go: nowhere, which leaves the cost of this package, or to the SDK. A reader of
// the SDK reads them.
var providers = []struct {
	name string
	make func() (metric.MeterProvider, sdkmetric.Reader)
}{
	{"noop", func() (metric.MeterProvider, sdkmetric.Reader) { return noop.MeterProvider{}, nil }},
	{"sdk", func() (metric.MeterProvider, sdkmetric.Reader) {
		reader := sdkmetric.NewManualReader()
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), reader
	}},
	{"sdk-without-exemplars", func() (metric.MeterProvider, sdkmetric.Reader) {
		reader, off := sdkmetric.NewManualReader(), sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter)
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), off), reader
	}},
}

// requireMeasured fails a benchmark whose reader, if there is one, has read no measurement.
func requireMeasured(b *testing.B, reader sdkmetric.Reader) {
	if reader != nil {
		var all metricdata.ResourceMetrics
		require.NoError(b, reader.Collect(context.Background(), &all))
		require.NotEmpty(b, all.ScopeMetrics)
	}
}

// hot returns the measurements of a hot path.
func hot(t *Telemetry) map[string]func() {
	o, ctx, middleware := t.Observer(), context.Background(), t.Middleware("http")
	yes, no := granted("tenant:7", "token_bucket"), denied("tenant:7", "token_bucket")
	failed := broken("tenant:7", "token_bucket", context.DeadlineExceeded)
	no.Source = rratelimiter.FromMemory
	waited := yes
	waited.Waited = time.Millisecond // too short for a span
	return map[string]func(){
		"granted":   func() { o.Decision(ctx, yes) },
		"denied":    func() { o.Decision(ctx, no) },
		"failed":    func() { o.Decision(ctx, failed) },
		"waited":    func() { o.Decision(ctx, waited) },
		"waiting":   func() { o.Waiting(ctx, rratelimiter.WaitingInfo{Policy: "token_bucket", Change: 1}) },
		"redisCall": func() { o.RedisCall(ctx, rratelimiter.RedisCallInfo{Policy: "token_bucket", Requests: 7}) },
		"middleware": func() {
			middleware.Request(ctx, limit.Outcome{Result: limit.Acquired, Limiter: "web:192.0.2.1"})
		},
	}
}

func BenchmarkTelemetry(b *testing.B) {
	for _, p := range providers {
		for name := range hot(setUp(b).Telemetry) {
			b.Run(p.name+"/"+name, func(b *testing.B) {
				provider, reader := p.make()
				telemetry, err := New(WithMeterProvider(provider), WithLimiterNames("paid-api", "web:*"))
				require.NoError(b, err)
				measure := hot(telemetry)[name]
				b.ReportAllocs()
				for b.Loop() {
					measure()
				}
				requireMeasured(b, reader)
			})
		}
	}
}

// TestTelemetry_SameMeasurementAgain_AllocatesNothing on the hot path.
func TestTelemetry_SameMeasurementAgain_AllocatesNothing(t *testing.T) {
	for _, p := range providers {
		provider, _ := p.make()
		telemetry, err := New(WithMeterProvider(provider), WithLimiterNames("paid-api", "web:*"))
		require.NoError(t, err)
		for name, measure := range hot(telemetry) {
			require.Zero(t, testing.AllocsPerRun(100, measure), "%s: %s", p.name, name)
		}
	}
}
