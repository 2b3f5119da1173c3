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
	"github.com/rratelimiter/rratelimiter/limit"
)

// providers lists where measurements go: nowhere, which leaves the cost of this package, or to the SDK, which
// measures nothing without a reader.
var providers = map[string]func() metric.MeterProvider{
	"noop": func() metric.MeterProvider { return noop.MeterProvider{} },
	"sdk": func() metric.MeterProvider {
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	},
	"sdk-without-exemplars": func() metric.MeterProvider {
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()),
			sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter))
	},
}

// hot returns the measurements of a hot path.
func hot(t *Telemetry) map[string]func() {
	o, ctx, middleware := t.Observer(), context.Background(), t.Middleware("http")
	yes, no := granted("tenant:7", "token_bucket"), denied("tenant:7", "token_bucket")
	failed := broken("tenant:7", "token_bucket", context.DeadlineExceeded)
	no.Source = rratelimiter.FromMemory
	delayed := waited(yes, time.Second, time.Millisecond) // too short for a span
	return map[string]func(){
		"granted":   func() { o.Decision(ctx, yes) },
		"denied":    func() { o.Decision(ctx, no) },
		"failed":    func() { o.Decision(ctx, failed) },
		"waited":    func() { o.Decision(ctx, delayed) },
		"waiting":   func() { o.Waiting(ctx, rratelimiter.WaitingInfo{Policy: "token_bucket", Change: 1}) },
		"places":    func() { o.Places(rratelimiter.PlacesInfo{Name: "paid-api", Change: 1}) },
		"redisCall": func() { o.RedisCall(ctx, rratelimiter.RedisCallInfo{Policy: "token_bucket", Requests: 7}) },
		"middleware": func() {
			middleware.Request(ctx, limit.Outcome{Result: limit.Acquired, Limiter: "web:192.0.2.1"})
		},
	}
}

func BenchmarkTelemetry(b *testing.B) {
	for where, open := range providers {
		for name, measure := range hot(measuring(b, open())) {
			b.Run(where+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					measure()
				}
			})
		}
	}
}

// TestTelemetry_SameMeasurementAgain_AllocatesNothing on the hot path.
func TestTelemetry_SameMeasurementAgain_AllocatesNothing(t *testing.T) {
	for where, open := range providers {
		for name, measure := range hot(measuring(t, open())) {
			require.Zero(t, testing.AllocsPerRun(100, measure), "%s: %s", where, name)
		}
	}
}

func measuring(tb testing.TB, meters metric.MeterProvider) *Telemetry {
	telemetry, err := New(WithMeterProvider(meters), WithLimiterNames("paid-api", "web:*"))
	require.NoError(tb, err)
	return telemetry
}
