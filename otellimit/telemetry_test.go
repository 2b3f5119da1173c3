package otellimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/rratelimiter/rratelimiter"
)

func attrs(kvs ...string) attribute.Set {
	var set []attribute.KeyValue
	for i := 0; i < len(kvs); i += 2 {
		set = append(set, attribute.String(kvs[i], kvs[i+1]))
	}
	return attribute.NewSet(set...)
}

const (
	policy       = "rratelimiter.policy"
	resultIs     = "rratelimiter.result"
	errorType    = "error.type"
	middlewareIs = "rratelimiter.middleware"
)

func counter(points ...metricdata.DataPoint[int64]) metricdata.Sum[int64] {
	return metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true, DataPoints: points}
}

func upDown(points ...metricdata.DataPoint[int64]) metricdata.Sum[int64] {
	s := counter(points...)
	s.IsMonotonic = false
	return s
}

func point(value int64, kvs ...string) metricdata.DataPoint[int64] {
	return metricdata.DataPoint[int64]{Attributes: attrs(kvs...), Value: value}
}

func histogram[N int64 | float64](points ...metricdata.HistogramDataPoint[N]) metricdata.Histogram[N] {
	return metricdata.Histogram[N]{Temporality: metricdata.CumulativeTemporality, DataPoints: points}
}

// spread returns a point of a histogram with the values in order.
func spread[N int64 | float64](bounds []float64, values []N, kvs ...string) metricdata.HistogramDataPoint[N] {
	p := metricdata.HistogramDataPoint[N]{
		Attributes: attrs(kvs...), Count: uint64(len(values)), Bounds: bounds, BucketCounts: make([]uint64, len(bounds)+1),
		Min: metricdata.NewExtrema(values[0]), Max: metricdata.NewExtrema(values[len(values)-1]),
	}
	for _, v := range values {
		p.Sum += v
		i := 0
		for i < len(bounds) && float64(v) > bounds[i] {
			i++
		}
		p.BucketCounts[i]++
	}
	return p
}

// TestTelemetry_EachMeasurement_HasItsPoints: one of each kind, with all points.
func TestTelemetry_EachMeasurement_HasItsPoints(t *testing.T) {
	b := setUp(t)
	o, ctx := b.Observer(), context.Background()

	o.Decision(ctx, granted("paid-api", "redisson"))
	waited := granted("tenant:7", "token_bucket")
	waited.Permits, waited.Took, waited.Waited = 5, 1500*time.Millisecond, 1400*time.Millisecond
	o.Decision(ctx, waited)
	memory := denied("login:alice", "fixed_window")
	memory.Source, memory.Took = rratelimiter.FromMemory, time.Microsecond
	o.Decision(ctx, memory)
	lease := granted("login:alice", "fixed_window")
	lease.Source, lease.Took = rratelimiter.FromLease, 2*time.Microsecond
	o.Decision(ctx, lease)
	o.Decision(ended(context.Canceled), broken("paid-api", "redisson", context.Canceled))
	o.Decision(ctx, broken("paid-api", "redisson", errSecret))

	o.RedisCall(ctx, rratelimiter.RedisCallInfo{
		Name: "paid-api", Policy: "redisson", Requests: 3, Permits: 3, Took: time.Millisecond,
	})
	o.RedisCall(ctx, rratelimiter.RedisCallInfo{
		Name: "paid-api", Policy: "redisson", Requests: 40, Permits: 40, Took: 2 * time.Millisecond,
	})
	o.RedisCall(ctx, rratelimiter.RedisCallInfo{
		Name: "paid-api", Policy: "redisson", Requests: 1, Took: time.Second, Err: context.DeadlineExceeded,
	})

	for range 3 {
		o.Waiting(ctx, rratelimiter.WaitingInfo{Name: "paid-api", Policy: "redisson", Change: 1})
	}
	o.Waiting(ctx, rratelimiter.WaitingInfo{Name: "paid-api", Policy: "redisson", Change: -1})

	middleware := b.Middleware("http")
	middleware.Request(ctx, Outcome{Result: "acquired", Limiter: "web:192.0.2.1"})
	middleware.Request(ctx, Outcome{Result: "failed_closed", Limiter: "web:192.0.2.1", Err: context.DeadlineExceeded})
	middleware.RedisChange(false, errSecret)
	b.RulesReloaded(nil)
	b.RulesReloaded(errSecret)

	redisson := []string{policy, "redisson"}
	with := func(base []string, more ...string) []string { return append(base[:len(base):len(base)], more...) }
	bucket := []string{policy, "token_bucket", resultIs, "acquired"}
	window := []string{policy, "fixed_window"}
	acquired, rejected := []string{resultIs, "acquired"}, []string{resultIs, "rejected"}
	gaveUp := []string{resultIs, "canceled", errorType, "canceled"}
	failed := []string{resultIs, "failed", errorType, "_OTHER"}
	late := with(redisson, errorType, "deadline_exceeded")
	expected := map[string]metricdata.Metrics{
		"requests": {Unit: "{request}", Data: counter(
			point(1, with(redisson, acquired...)...),
			point(1, bucket...),
			point(1, with(window, rejected...)...),
			point(1, with(window, acquired...)...),
			point(1, with(redisson, gaveUp...)...),
			point(1, with(redisson, failed...)...),
		)},
		"permits": {Unit: "{permit}", Data: counter(
			point(1, redisson...),
			point(5, policy, "token_bucket"),
			point(1, window...),
		)},
		"denial_cache.hits": {Unit: "{request}", Data: counter(point(1, window...))},
		"request.duration": {Unit: "s", Data: histogram(
			spread(durations, []float64{0.0002}, with(redisson, acquired...)...),
			spread(durations, []float64{1.5}, bucket...),
			spread(durations, []float64{0.000001}, with(window, rejected...)...),
			spread(durations, []float64{0.000002}, with(window, acquired...)...),
			spread(durations, []float64{0.0002}, with(redisson, gaveUp...)...),
			spread(durations, []float64{0.0002}, with(redisson, failed...)...),
		)},
		"request.time_in_queue": {Unit: "s", Data: histogram(spread(waits, []float64{1.4}, bucket...))},
		"queued_requests":       {Unit: "{request}", Data: upDown(point(2, redisson...))},
		"redis.calls": {Unit: "{call}", Data: counter(
			point(2, redisson...),
			point(1, late...),
		)},
		"redis.call.requests": {Unit: "{request}", Data: histogram(
			spread(batches, []int64{3, 40}, redisson...),
			spread(batches, []int64{1}, late...),
		)},
		"redis.call.duration": {Unit: "s", Data: histogram(
			spread(durations, []float64{0.001, 0.002}, redisson...),
			spread(durations, []float64{1}, late...),
		)},
		"middleware.requests": {Unit: "{request}", Data: counter(
			point(1, middlewareIs, "http", resultIs, "acquired"),
			point(1, middlewareIs, "http", resultIs, "failed_closed", errorType, "deadline_exceeded"),
		)},
		"fallback.active": {Unit: "{limiter}", Data: upDown(point(1, middlewareIs, "http"))},
		"rules.reloads": {Unit: "{reload}", Data: counter(
			point(1, resultIs, "succeeded"),
			point(1, resultIs, "failed"),
		)},
	}
	got := b.metrics()
	for name, m := range got {
		assert.NotEmpty(t, m.Description, name)
		want := expected[name]
		want.Name, want.Description = m.Name, m.Description
		metricdatatest.AssertEqual(t, want, m, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
	}
	assert.Len(t, got, len(expected))
}

// TestTelemetry_Concurrent_LosesNothing: also if several goroutines create a series at once.
func TestTelemetry_Concurrent_LosesNothing(t *testing.T) {
	b := setUp(t, WithLimiterNames("a", "b*"))
	o, ctx, middleware := b.Observer(), context.Background(), b.Middleware("http")
	names := []string{"a", "b1", "b2", "c"}
	together(8, func(i int) {
		for j := range 400 {
			name := names[(i+j)%len(names)]
			o.Decision(ctx, granted(name, "redisson"))
			o.Waiting(ctx, rratelimiter.WaitingInfo{Name: name, Policy: "redisson", Change: 1})
			o.RedisCall(ctx, rratelimiter.RedisCallInfo{Name: name, Policy: "redisson", Requests: 1, Err: errSecret})
			o.Waiting(ctx, rratelimiter.WaitingInfo{Name: name, Policy: "redisson", Change: -1})
			middleware.Request(ctx, Outcome{Result: "rejected", Shadow: true, Limiter: name})
			if j%100 == 0 {
				b.metrics()
			}
		}
	})
	assert.Equal(t, map[string]int64{
		"rratelimiter.limiter=a,rratelimiter.policy=redisson,rratelimiter.result=acquired":  800,
		"rratelimiter.limiter=b*,rratelimiter.policy=redisson,rratelimiter.result=acquired": 1600,
		"rratelimiter.policy=redisson,rratelimiter.result=acquired":                         800,
	}, b.sums("requests"))
	assert.Equal(t, map[string]int64{
		"rratelimiter.limiter=a,rratelimiter.policy=redisson":  0,
		"rratelimiter.limiter=b*,rratelimiter.policy=redisson": 0,
		"rratelimiter.policy=redisson":                         0,
	}, b.sums("queued_requests"))
	assert.Equal(t, map[string]int64{
		"rratelimiter.limiter=a,rratelimiter.middleware=http,rratelimiter.result=shadowed":  800,
		"rratelimiter.limiter=b*,rratelimiter.middleware=http,rratelimiter.result=shadowed": 1600,
		"rratelimiter.middleware=http,rratelimiter.result=shadowed":                         800,
	}, b.sums("middleware.requests"))
}
