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

	"github.com/rratelimiter/rratelimiter"
)

// providers are a no-op, which leaves the costs of this package, and the SDK.
var providers = []struct {
	name string
	make func() metric.MeterProvider
}{
	{"noop", func() metric.MeterProvider { return noop.MeterProvider{} }},
	{"sdk", func() metric.MeterProvider {
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	}},
	{"sdk-without-exemplars", func() metric.MeterProvider {
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()),
			sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter))
	}},
}

// hot returns the measurements of a hot path.
func hot(t *Telemetry) map[string]func() {
	o, ctx, door := t.Observer(), context.Background(), t.Door("http")
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
		"door":      func() { door.Request(ctx, Outcome{Result: "acquired", Limiter: "web:192.0.2.1"}) },
	}
}

func BenchmarkTelemetry(b *testing.B) {
	for _, p := range providers {
		telemetry, err := New(WithMeterProvider(p.make()), WithLimiterNames("paid-api", "web:*"))
		require.NoError(b, err)
		for name, measure := range hot(telemetry) {
			b.Run(p.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					measure()
				}
			})
		}
	}
}

// BenchmarkManyCallers reports decisions of all processors at once.
func BenchmarkManyCallers(b *testing.B) {
	for _, p := range providers {
		telemetry, err := New(WithMeterProvider(p.make()))
		require.NoError(b, err)
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				o, ctx, d := telemetry.Observer(), context.Background(), granted("tenant:7", "token_bucket")
				for pb.Next() {
					o.Decision(ctx, d)
				}
			})
		})
	}
}

// TestTelemetry_RepeatedMeasurements_DoNotAllocate: after the first one of a kind.
func TestTelemetry_RepeatedMeasurements_DoNotAllocate(t *testing.T) {
	for _, p := range providers {
		telemetry, err := New(WithMeterProvider(p.make()), WithLimiterNames("paid-api", "web:*"))
		require.NoError(t, err)
		for name, measure := range hot(telemetry) {
			require.Zero(t, testing.AllocsPerRun(100, measure), "%s: %s", p.name, name)
		}
	}
}
