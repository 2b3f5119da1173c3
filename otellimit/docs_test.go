package otellimit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// values returns the results and error types.
func values(t *testing.T) (all []string) {
	constant := regexp.MustCompile(`(?m) (?:result|failure) = "(\w+)"`)
	for _, m := range constant.FindAllStringSubmatch(golden.Text(t, "attributes.go"), -1) {
		all = append(all, m[1])
	}
	require.Contains(t, all, "acquired")
	require.Contains(t, all, "redis_down")
	return all
}

func TestPage_Code_RunsInExamples(t *testing.T) {
	guardtest.TestPage(t, "../docs/production.md", "telemetry", "example_test.go")
}

// The page also lists Prometheus names, results and error types.
func TestPage_Instruments_AreListed(t *testing.T) {
	page, doc := golden.Text(t, "../docs/production.md"), golden.Text(t, "doc.go")
	b := setUp(t)
	work(b.Telemetry)
	for name, m := range b.metrics() {
		assert.Contains(t, page, "| `rratelimiter."+name+"` |")
		assert.Contains(t, page, ", "+m.Unit+" |", name)
		_, line, _ := strings.Cut(doc, "//	rratelimiter."+name+" ")
		line, _, _ = strings.Cut(line, "\n")
		assert.Contains(t, line, m.Unit, name)
	}
	_, families := exported(t)
	for family := range families {
		assert.Contains(t, page, "| `"+family+"` |")
	}
	for _, value := range values(t) {
		assert.Contains(t, page, "`"+value+"`")
		assert.Contains(t, doc, value)
	}
}

// dashboard has the checked parts of docs/grafana.json.
type dashboard struct {
	Templating struct{ List []struct{ Definition string } }
	Panels     []struct {
		Type, Title string
		Description string
		Datasource  dataSource
		Targets     []struct {
			Expr         string
			LegendFormat string
			Datasource   dataSource
		}
	}
}

type dataSource struct{ Type, UID string }

var (
	ofVariable = dataSource{"prometheus", "${datasource}"}
	word       = regexp.MustCompile(`[a-z_]+`)
	quoted     = regexp.MustCompile(`"[^"]*"`)
	inLegend   = regexp.MustCompile(`{{(\w+)}}`)
	grouped    = regexp.MustCompile(`by \(([\w, ]+)\)`)
)

// Queries name only existing metrics and labels, and all metrics are shown.
func TestDashboard_Queries_NameExportedMetrics(t *testing.T) {
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(golden.Text(t, "../docs/grafana.json")), &d))
	require.Len(t, d.Templating.List, 2)
	export, families := exported(t)
	shown := map[string]bool{}
	// check reads the names of a query and records the instruments that it shows.
	check := func(query string) {
		labels := map[string]bool{"le": true}
		var others []string
		for _, name := range word.FindAllString(quoted.ReplaceAllString(query, ""), -1) {
			if family, ok := familyOf(export, name); ok {
				shown[family] = true
				for label := range families[family] {
					labels[label] = true
				}
			} else if strings.HasPrefix(name, "rratelimiter") || name == "error_type" {
				others = append(others, name)
			}
		}
		for _, name := range others {
			assert.True(t, labels[name], "%s in %s is no metric, and no label of one", name, query)
		}
	}
	check(d.Templating.List[1].Definition)

	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		assert.NotEmpty(t, p.Description, p.Title)
		assert.Equal(t, ofVariable, p.Datasource, p.Title)
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, ofVariable, target.Datasource, p.Title)
			check(target.Expr)
			var by string
			if m := grouped.FindStringSubmatch(target.Expr); m != nil {
				by = m[1]
			}
			for _, m := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, strings.Split(by, ", "), m[1], "%s: the legend %s", p.Title, target.LegendFormat)
			}
		}
	}
	for family := range families {
		assert.True(t, shown[family], "%s is not shown", family)
	}
}

// familyOf returns the family of a metric as Prometheus stores it: a histogram as buckets, sum and count.
func familyOf(export, name string) (string, bool) {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		family, found := strings.CutSuffix(name, suffix)
		histogram := strings.Contains(export, "# TYPE "+family+" histogram\n")
		if found && strings.Contains(export, "# TYPE "+family+" ") && histogram == (suffix != "") {
			return family, true
		}
	}
	return "", false
}

// The alerts of docs/production.md name existing metrics, labels and values.
func TestProductionPage_Alerts_NameExportedMetrics(t *testing.T) {
	page, _, _ := strings.Cut(golden.Text(t, "../docs/production.md"), "\n## Observability\n")
	export, families := exported(t)
	labels := map[string]bool{}
	for _, of := range families {
		for label := range of {
			labels[label] = true
		}
	}
	for _, name := range regexp.MustCompile(`rratelimiter_\w+`).FindAllString(page, -1) {
		_, metric := familyOf(export, name)
		assert.True(t, metric || labels[name], "%s is no metric, and no label of one", name)
	}
	assert.Contains(t, export, `rratelimiter_source="share"`)
	used := regexp.MustCompile(`(?:rratelimiter_result|error_type)="(\w+)"`).FindAllStringSubmatch(page, -1)
	assert.NotEmpty(t, used)
	for _, value := range used {
		assert.Contains(t, values(t), value[1], value[0])
	}
}

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
