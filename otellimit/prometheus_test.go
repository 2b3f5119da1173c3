package otellimit

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/limit"
)

// exported returns what Prometheus scrapes after one of every kind of measurement.
func exported(t testing.TB) (text string, names map[string]map[string]bool) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutTargetInfo(),
		exporter.WithoutScopeInfo())
	require.NoError(t, err)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	telemetry, err := New(WithMeterProvider(meters), WithLimiterNames("paid-api", "web:*"))
	require.NoError(t, err)
	work(telemetry)

	families, err := registry.Gather()
	require.NoError(t, err)
	var out bytes.Buffer
	names = map[string]map[string]bool{}
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&out, family)
		require.NoError(t, err)
		labels := map[string]bool{}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
		names[family.GetName()] = labels
	}
	return out.String(), names
}

// work makes one of every kind of measurement.
func work(t *Telemetry) {
	o, ctx := t.Observer(), context.Background()
	for range 7 {
		o.Decision(ctx, granted("paid-api", "redisson"))
		o.Decision(ctx, granted("web:192.0.2.1", "fixed_window+token_bucket"))
	}
	o.Decision(ctx, denied("paid-api", "redisson"))
	memory := denied("web:192.0.2.1", "fixed_window+token_bucket")
	memory.Source, memory.Took = rratelimiter.FromMemory, time.Microsecond
	o.Decision(ctx, memory)
	delayed := waited(granted("job:7", "leaky_bucket"), 300*time.Millisecond, 299*time.Millisecond)
	delayed.Permits = 5
	o.Decision(ctx, delayed)
	o.Decision(ended(context.Canceled), broken("job:7", "leaky_bucket", context.Canceled))
	o.Decision(ctx, broken("job:7", "leaky_bucket", errSecret))
	for _, change := range []int{1, 1, -1} {
		o.Waiting(ctx, rratelimiter.WaitingInfo{Name: "job:7", Policy: "leaky_bucket", Change: change})
	}
	o.RedisCall(ctx, rratelimiter.RedisCallInfo{
		Name: "paid-api", Policy: "redisson", Requests: 8, Took: 180 * time.Microsecond,
	})
	o.RedisCall(ctx, rratelimiter.RedisCallInfo{
		Name: "job:7", Policy: "leaky_bucket", Requests: 1, Took: time.Second, Err: context.DeadlineExceeded,
	})

	for _, places := range []rratelimiter.PlacesInfo{
		{Name: "paid-api", Change: 1}, {Name: "job:7", Change: 1}, {Name: "job:8", Change: 1}, {Name: "job:7", Change: -1},
		{Name: "paid-api", Expired: 3},
	} {
		o.Places(places)
	}

	middleware, request := t.Middleware("http"), new(http.Request)
	for _, outcome := range []limit.Outcome{
		{Result: limit.Acquired, Limiter: "web:192.0.2.1"},
		{Result: limit.Rejected, Limiter: "web:192.0.2.1"},
		{Result: limit.Rejected, Limiter: "web:192.0.2.1", Shadow: true},
		{Result: limit.FailedOpen, Limiter: "web:192.0.2.1", Err: context.DeadlineExceeded},
		{Result: limit.FailedClosed, Err: errors.New("the client address is unknown: 192.0.2.1")},
		{Result: limit.Invalid, Err: limit.ErrInvalidRequest},
		{Result: limit.Canceled, Limiter: "web:192.0.2.1", Err: context.Canceled},
	} {
		middleware.HTTP(request, outcome)
	}
	GRPC[string](middleware)(context.Background(), "/shop/Buy", limit.Outcome{Result: limit.Acquired, Local: true})
	middleware.RedisChange("10.0.0.1:6379", false, errSecret)
	t.RulesReloaded(nil)
	t.RulesReloaded(errSecret)
}

// -update writes the file.
func TestPrometheus_Export_IsGolden(t *testing.T) {
	got, _ := exported(t)
	golden.File(t, "testdata/prometheus.txt", got)
}
