package otellimit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// provider returns the same Meter each time.
type provider struct {
	noop.MeterProvider
	meter metric.Meter
}

func (p provider) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter }

// meter returns an invalid counter or an error.
type meter struct {
	noop.Meter
	counter metric.Int64Counter
	err     error
}

func (m meter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return m.counter, m.err
}

// panicking is a counter that panics.
type panicking struct{ noop.Int64Counter }

func (panicking) Add(context.Context, int64, ...metric.AddOption) { panic("no disk") }

func TestNew_InvalidProviders_Fails(t *testing.T) {
	for name, c := range map[string]struct {
		opt  Option
		want string
	}{
		"no MeterProvider":     {WithMeterProvider(nil), "the MeterProvider (<nil>)"},
		"no TracerProvider":    {WithTracerProvider(nil), "the TracerProvider (<nil>) panicked"},
		"a nil MeterProvider":  {WithMeterProvider((*sdkmetric.MeterProvider)(nil)), "(*metric.MeterProvider) or"},
		"a nil TracerProvider": {WithTracerProvider((*sdktrace.TracerProvider)(nil)), "(*trace.TracerProvider) panicked"},
		"no Meter":             {WithMeterProvider(provider{}), "(otellimit.provider) or"},
		"an error": {WithMeterProvider(provider{meter: meter{err: errors.New("out of ink")}}),
			"otellimit: create the instruments: out of ink"},
		"no name":   {WithLimiterNames("paid-api", ""), `otellimit: WithLimiterNames: "" selects no limiter: list a name`},
		"all names": {WithLimiterNames("paid-api", "*"), `otellimit: WithLimiterNames: "*" selects no limiter`},
	} {
		made, err := New(c.opt)
		assert.ErrorContains(t, err, c.want, name)
		assert.Nil(t, made, name)
	}
	_, err := New(nil)
	assert.NoError(t, err, "a nil Option")
}

// The panic does not reach the limiter's caller.
func TestTelemetry_ProviderPanics_ErrorHandlerIsCalled(t *testing.T) {
	var handled []error
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	defer otel.SetErrorHandler(before)

	b, err := New(WithMeterProvider(provider{meter: meter{counter: panicking{}}}))
	require.NoError(t, err)
	o, ctx := b.Observer(), context.Background()
	o.Decision(ctx, granted("n", "redisson"))
	o.RedisCall(ctx, rratelimiter.RedisCallInfo{})
	b.Middleware("http").Request(ctx, limit.Outcome{Result: limit.Acquired})
	b.RulesReloaded(nil)
	require.Len(t, handled, 4)
	assert.EqualError(t, handled[0], "otellimit: a measurement panicked: no disk")
}

// late creates a Telemetry, and sets the global providers after that, which is possible only once.
var late = sync.OnceValue(func() bench {
	b := bench{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	b.Telemetry, _ = New()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader)))
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans)))
	return b
})

// A main function may set the global providers after New.
func TestNew_GlobalProvidersSetLater_AreUsed(t *testing.T) {
	b := late()
	b.t = t
	const key = "rratelimiter.policy=redisson,rratelimiter.result=acquired"
	requests, spans := b.sums("requests")[key], len(b.spans.Ended())
	b.Observer().Decision(context.Background(), waited(granted("n", "redisson"), time.Second, time.Second))
	assert.Equal(t, requests+1, b.sums("requests")[key])
	assert.Len(t, b.spans.Ended(), spans+1)
}

// A program may change it.
func TestTelemetry_Observer_IsACopy(t *testing.T) {
	b := setUp(t)
	b.Observer().Decision = nil
	assert.NotNil(t, b.Observer().Decision)
}

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
