package otellimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// The link to Redis takes a millisecond.
func TestClient_Observed_IsMeasured(t *testing.T) {
	redistest.Run(t, func(t *testing.T, r *redistest.Fixture) {
		b, ctx := setUp(t), t.Context()
		client := rratelimiter.New(r.Conn, rratelimiter.WithObserver(b.Observer()))
		shared := client.Limiter("paid-api")
		_, err := shared.TrySetRate(ctx, rratelimiter.Rate{Permits: 2, Interval: time.Minute})
		require.NoError(t, err)
		bucket := limit.New(client, "tenant:7", limit.TokenBucket{Capacity: 1, Refill: 1, Interval: time.Second})
		r.Latency.Store(int64(time.Millisecond))

		for range 3 {
			_, err := shared.TryAcquire(ctx, 1)
			require.NoError(t, err)
		}
		_, err = client.Limiter("unset").Take(ctx, 1)
		require.ErrorIs(t, err, rratelimiter.ErrNotInitialized)
		require.NoError(t, bucket.Acquire(ctx, 1))
		require.NoError(t, bucket.Acquire(ctx, 1))
		impatient, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		require.ErrorIs(t, shared.Acquire(impatient, 1), context.DeadlineExceeded)
		synctest.Wait()

		assert.Equal(t, map[string]int64{
			"rratelimiter.policy=redisson,rratelimiter.result=acquired":                              2,
			"rratelimiter.policy=redisson,rratelimiter.result=rejected":                              1,
			"error.type=not_initialized,rratelimiter.policy=redisson,rratelimiter.result=failed":     1,
			"rratelimiter.policy=token_bucket,rratelimiter.result=acquired":                          2,
			"error.type=deadline_exceeded,rratelimiter.policy=redisson,rratelimiter.result=canceled": 1,
		}, b.sums("requests"))
		assert.Equal(t, map[string]int64{
			"rratelimiter.policy=redisson": 2, "rratelimiter.policy=token_bucket": 2,
		}, b.sums("permits"))
		calls := b.sums("redis.calls")
		assert.Contains(t, []int64{2, 3}, calls["rratelimiter.policy=token_bucket"], "a waiter asks once or twice")
		delete(calls, "rratelimiter.policy=token_bucket")
		assert.Equal(t, map[string]int64{
			"rratelimiter.policy=redisson":                            4,
			"error.type=not_initialized,rratelimiter.policy=redisson": 1,
		}, calls)
		assert.Equal(t, map[string]int64{
			"rratelimiter.policy=redisson": 0, "rratelimiter.policy=token_bucket": 0,
		}, b.sums("queued_requests"))

		spans := b.spans.Ended()
		require.Len(t, spans, 1, "only the second Acquire")
		assert.Equal(t, 1*time.Second, spans[0].EndTime().Sub(spans[0].StartTime()).Round(10*time.Millisecond))
		waited := b.metrics()["request.time_in_queue"].Data.(metricdata.Histogram[float64])
		assert.Len(t, waited.DataPoints, 1, "only the bucket: the unreachable deadline did not wait")
	})
}

func TestClient_SharedCalls_CountEachRequestOnce(t *testing.T) {
	redistest.Run(t, func(t *testing.T, r *redistest.Fixture) {
		b := setUp(t)
		client := rratelimiter.New(r.Conn, rratelimiter.WithObserver(b.Observer()))
		window := limit.New(client, "hot", limit.FixedWindow{Permits: 60, Interval: time.Hour})
		r.Latency.Store(int64(time.Millisecond))
		together(100, func(int) { window.TryAcquire(t.Context(), 1) })
		synctest.Wait()
		assert.Equal(t, map[string]int64{
			"rratelimiter.policy=fixed_window,rratelimiter.result=acquired": 60,
			"rratelimiter.policy=fixed_window,rratelimiter.result=rejected": 40,
		}, b.sums("requests"))
		calls := b.sums("redis.calls")["rratelimiter.policy=fixed_window"]
		assert.Less(t, calls, int64(100))
		carried := b.metrics()["redis.call.requests"].Data.(metricdata.Histogram[int64]).DataPoints
		require.Len(t, carried, 1)
		assert.EqualValues(t, calls, carried[0].Count)
		assert.EqualValues(t, 100, carried[0].Sum)
	})
}
