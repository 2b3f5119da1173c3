package otellimit_test

import (
	"bufio"
	"context"
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

// One limiter by name, and all clients of a website together.
func ExampleWithLimiterNames() {
	redis := connect()
	reader := metric.NewManualReader()

	telemetry := must(otellimit.New(otellimit.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		otellimit.WithLimiterNames("paid-api", "web:*")))
	client := rratelimiter.New(redis, rratelimiter.WithObserver(telemetry.Observer()))
	for _, name := range []string{"paid-api", "web:192.0.2.1", "web:192.0.2.2", "login:alice"} {
		limiter := limit.New(client, name, limit.FixedWindow{Permits: 5, Interval: time.Hour})
		if _, err := limiter.TryAcquire(context.Background(), 1); err != nil {
			panic(err)
		}
	}
	printCounter(reader, "rratelimiter.permits")
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

// printCounter prints a counter in alphabetical order.
func printCounter(reader metric.Reader, name string) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	var lines []string
	for _, measured := range all.ScopeMetrics[0].Metrics {
		if measured.Name != name {
			continue
		}
		for _, p := range measured.Data.(metricdata.Sum[int64]).DataPoints {
			set := p.Attributes.Encoded(attribute.DefaultEncoder())
			lines = append(lines, fmt.Sprintln(strings.ReplaceAll(set, "rratelimiter.", ""), p.Value))
		}
	}
	slices.Sort(lines)
	fmt.Print(strings.Join(lines, ""))
}
