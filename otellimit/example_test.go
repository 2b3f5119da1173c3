package otellimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/otellimit"
)

// A server that exports its limits to Prometheus.
func Example() {
	redis := connect()
	registry := prometheus.NewRegistry()

	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		panic(err)
	}
	telemetry, err := otellimit.New(otellimit.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		panic(err)
	}
	client := rratelimiter.New(redis, rratelimiter.WithObserver(telemetry.Observer()))
	perClient := httplimit.Each(client, "web", httplimit.ByIP(), limit.FixedWindow{Permits: 2, Interval: time.Hour})
	metrics := telemetry.Middleware("http")
	limited := httplimit.Middleware(perClient,
		httplimit.Report(metrics.HTTP),
		httplimit.OnRedisChange(metrics.RedisChange),
		unhurried)
	mux := http.NewServeMux()
	mux.Handle("GET /hello", limited(hello))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	for range 3 {
		fmt.Println(get(mux, "/hello").Code)
	}
	lines := bufio.NewScanner(get(mux, "/metrics").Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "rratelimiter_") && strings.Contains(lines.Text(), "requests_total") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// 200
	// 200
	// 429
	// rratelimiter_middleware_requests_total{rratelimiter_middleware="http",rratelimiter_result="acquired"} 2
	// rratelimiter_middleware_requests_total{rratelimiter_middleware="http",rratelimiter_result="rejected"} 1
	// rratelimiter_requests_total{rratelimiter_policy="fixed_window",rratelimiter_result="acquired"} 2
	// rratelimiter_requests_total{rratelimiter_policy="fixed_window",rratelimiter_result="rejected"} 1
}

// Only waits of at least a second have a span.
func ExampleWithSpansAfter() {
	spans := tracetest.NewSpanRecorder()
	telemetry := must(otellimit.New(otellimit.WithSpansAfter(time.Second),
		otellimit.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))))
	for _, waited := range []time.Duration{5 * time.Millisecond, 2 * time.Second} {
		telemetry.Observer().Decision(context.Background(), rratelimiter.DecisionInfo{
			Policy: "token_bucket", Granted: true, Took: waited, Waited: waited,
		})
	}
	fmt.Println(len(spans.Ended()))
	// Output: 1
}

// One limiter by name, and all clients of a website together.
func ExampleWithLimiterNames() {
	redis := connect()
	provider := newMeters()

	telemetry := must(otellimit.New(otellimit.WithMeterProvider(provider),
		otellimit.WithLimiterNames("paid-api", "web:*")))
	client := rratelimiter.New(redis, rratelimiter.WithObserver(telemetry.Observer()))
	for _, name := range []string{"paid-api", "web:192.0.2.1", "web:192.0.2.2", "login:alice"} {
		limiter := limit.New(client, name, limit.FixedWindow{Permits: 5, Interval: time.Hour})
		if _, err := limiter.TryAcquire(context.Background(), 1); err != nil {
			panic(err)
		}
	}
	provider.print("rratelimiter.permits")
	// Output:
	// limiter=paid-api,policy=fixed_window 1
	// limiter=web:*,policy=fixed_window 2
	// policy=fixed_window 1
}

// A program wraps Telemetry's hook with its own.
func ExampleTelemetry_Observer() {
	redis := connect()
	telemetry := must(otellimit.New())

	observer := telemetry.Observer()
	measure := observer.Decision
	observer.Decision = func(ctx context.Context, d rratelimiter.DecisionInfo) {
		measure(ctx, d)
		fmt.Println(d.Name, d.Granted)
	}
	client := rratelimiter.New(redis, rratelimiter.WithObserver(observer))
	mail := limit.New(client, "mail", limit.FixedWindow{Permits: 5, Interval: time.Hour})
	if _, err := mail.TryAcquire(context.Background(), 1); err != nil {
		panic(err)
	}
	// Output: mail true
}

// Two middlewares of a program, one of which is in shadow mode.
func ExampleTelemetry_Middleware() {
	redis := connect()
	provider := newMeters()
	telemetry := must(otellimit.New(otellimit.WithMeterProvider(provider)))

	client := rratelimiter.New(redis)
	behind := func(name string, opts ...httplimit.Option) http.Handler {
		one := httplimit.Each(client, name, httplimit.ByIP(), limit.FixedWindow{Permits: 1, Interval: time.Hour})
		return httplimit.Middleware(one, append(opts, unhurried, httplimit.Report(telemetry.Middleware(name).HTTP))...)(hello)
	}
	api, login := behind("api"), behind("login", httplimit.Shadow())
	for range 2 {
		fmt.Println(get(api, "/").Code, get(login, "/").Code)
	}
	provider.print("rratelimiter.middleware.requests")
	// Output:
	// 200 200
	// 429 200
	// middleware=api,result=acquired 1
	// middleware=api,result=rejected 1
	// middleware=login,result=acquired 1
	// middleware=login,result=shadowed 1
}

// down is a limiter whose Redis does not reply.
type down struct{}

func (down) Name() string { return "reports" }

func (down) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, errors.New("no route to 10.0.0.7")
}

func ExampleMiddleware_RedisChange() {
	provider := newMeters()
	telemetry := must(otellimit.New(otellimit.WithMeterProvider(provider)))
	metrics := telemetry.Middleware("http")
	provider.print("rratelimiter.fallback.active")
	get(httplimit.Middleware(httplimit.All(down{}), httplimit.OnRedisChange(metrics.RedisChange))(hello), "/")
	provider.print("rratelimiter.fallback.active")
	// Output:
	// middleware=http 0
	// middleware=http 1
}

// The Middleware of another middleware, such as grpclimit's.
func ExampleMiddleware_Request() {
	provider := newMeters()
	telemetry := must(otellimit.New(otellimit.WithMeterProvider(provider)))
	calls := telemetry.Middleware("grpc")
	calls.Request(context.Background(), limit.Outcome{Result: limit.Rejected})
	provider.print("rratelimiter.middleware.requests")
	// Output: middleware=grpc,result=rejected 1
}

// RulesReloaded counts each reload of a rules file.
func ExampleTelemetry_RulesReloaded() {
	provider := newMeters()
	telemetry := must(otellimit.New(otellimit.WithMeterProvider(provider)))
	telemetry.RulesReloaded(nil)
	telemetry.RulesReloaded(errors.New("limits.yaml:7: unknown field"))
	provider.print("rratelimiter.rules.reloads")
	// Output:
	// result=failed 1
	// result=succeeded 1
}

// connect opens an in-memory Redis instead of
//
//	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
var connect = redistest.Example

// unhurried is a deadline for busy machines.
var unhurried = httplimit.Deadline(time.Minute)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// get sends a request to a handler.
func get(handler http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// must returns a Telemetry that New has created without an error.
func must(telemetry *otellimit.Telemetry, err error) *otellimit.Telemetry {
	if err != nil {
		panic(err)
	}
	return telemetry
}

// meters is a MeterProvider whose counters an example can print.
type meters struct {
	*metric.MeterProvider
	reader *metric.ManualReader
}

func newMeters() meters {
	reader := metric.NewManualReader()
	return meters{metric.NewMeterProvider(metric.WithReader(reader)), reader}
}

// print prints the counters of a name in alphabetical order.
func (m meters) print(name string) {
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, s := range all.ScopeMetrics {
		for _, measured := range s.Metrics {
			data, counts := measured.Data.(metricdata.Sum[int64])
			if measured.Name != name || !counts {
				continue
			}
			var lines []string
			for _, p := range data.DataPoints {
				set := p.Attributes.Encoded(attribute.DefaultEncoder())
				lines = append(lines, fmt.Sprintln(strings.ReplaceAll(set, "rratelimiter.", ""), p.Value))
			}
			slices.Sort(lines)
			fmt.Print(strings.Join(lines, ""))
		}
	}
}
