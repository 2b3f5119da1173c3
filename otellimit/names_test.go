package otellimit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// By default no attribute of an instrument or span has a name.
func TestNames_OnlyListed_AreAttributes(t *testing.T) {
	for _, c := range []struct {
		listed []string
		want   map[string]string
	}{
		{nil, map[string]string{"paid-api": "", "web:10.0.0.7": "", "": ""}},
		{[]string{"paid-api", "web:*"}, map[string]string{
			"paid-api": "paid-api", "paid-api2": "", "paid": "", "web:10.0.0.7": "web:*", "web:": "web:*", "web": "", "": "",
		}},
		{[]string{"web:*", "web:v6:*", "web:10.0.0.7", "*x*"}, map[string]string{
			"web:10.0.0.8": "web:*", "web:v6:::1": "web:v6:*", "web:10.0.0.7": "web:10.0.0.7", "*xy": "*x*",
		}},
	} {
		b := setUp(t, WithLimiterNames(c.listed...))
		o := b.Observer()
		for name, want := range c.want {
			assert.Equal(t, want, b.names.of(name), name)
			d := granted(name, "redisson")
			d.Waited = time.Second
			o.Decision(context.Background(), d)
			o.Decision(context.Background(), broken(name, "redisson", fmt.Errorf("%q at 10.0.0.7", name)))
			o.RedisCall(context.Background(), rratelimiter.RedisCallInfo{Name: name, Policy: "redisson", Requests: 1})
			o.Waiting(context.Background(), rratelimiter.WaitingInfo{Name: name, Policy: "redisson", Change: 1})
			b.Middleware("http").Request(context.Background(), limit.Outcome{
				Result: limit.FailedOpen, Limiter: name, Err: fmt.Errorf("%q at 10.0.0.7", name),
			})
		}
		allowed := append([]string{""}, c.listed...)
		for name, m := range b.metrics() {
			for _, set := range attributesOf(m) {
				limiter, _ := set.Value(limiterKey)
				assert.Contains(t, allowed, limiter.AsString(), name)
				for _, kv := range set.ToSlice() {
					if kv.Key != limiterKey {
						value := kv.Value.String()
						assert.False(t, strings.Contains(value, "10.0.0") || strings.Contains(value, "paid"), "%s: %v", name, kv)
					}
				}
			}
		}
		for _, span := range b.spans.Ended() {
			for _, kv := range span.Attributes() {
				if kv.Key == limiterKey {
					assert.Contains(t, allowed, kv.Value.AsString())
				} else {
					assert.NotContains(t, kv.Value.String(), "10.0.0")
				}
			}
		}
	}
}

func TestNames_NoName_AreRejected(t *testing.T) {
	for _, name := range []string{"", "*"} {
		_, err := New(WithLimiterNames("paid-api", name))
		assert.EqualError(t, err, fmt.Sprintf(
			"otellimit: WithLimiterNames: %q selects no limiter: list a name, or a prefix with an asterisk", name))
	}
}

// attributesOf returns the attribute sets of an instrument.
func attributesOf(m metricdata.Metrics) (sets []attribute.Set) {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	}
	return sets
}
