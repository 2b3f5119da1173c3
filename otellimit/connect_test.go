package otellimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/otellimit"
)

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
	*sdkmetric.MeterProvider
	reader *sdkmetric.ManualReader
}

func newMeters() meters {
	reader := sdkmetric.NewManualReader()
	return meters{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), reader}
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
