package rratelimiter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

func TestWithObserver_FieldsChangeLater_AreNotRead(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		var reported int
		o := &Observer{Decision: func(context.Context, DecisionInfo) { reported++ }}
		given := WithObserver(o)
		o.Decision = nil
		f.RequireGranted(f.limiter(Rate{Permits: 10, Interval: time.Hour}, given), 1)
		assert.Equal(t, 1, reported)
	})
}

// TestObserver_Calls_AreReportedWithTheirNames: a decision, the call to Redis, and the wait.
func TestObserver_Calls_AreReportedWithTheirNames(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		var decisions []DecisionInfo
		var calls []RedisCallInfo
		var waits []WaitingInfo
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour}, WithObserver(&Observer{
			Decision:  func(_ context.Context, d DecisionInfo) { decisions = append(decisions, d) },
			RedisCall: func(_ context.Context, c RedisCallInfo) { calls = append(calls, c) },
			Waiting:   func(_ context.Context, w WaitingInfo) { waits = append(waits, w) },
		}))
		const trip = 10 * time.Millisecond
		f.Latency.Store(int64(trip))
		require.NoError(t, l.Acquire(t.Context(), 3))
		f.RequireDenied(l, 8)
		granted, _, err := l.TakeUpTo(t.Context(), 50)
		require.NoError(t, err)
		require.EqualValues(t, 7, granted)
		_, err = l.TryAcquire(t.Context(), 11)
		require.ErrorIs(t, err, ErrPermitsExceedRate)
		_, refused := l.TryAcquire(t.Context(), engine.MaxPermits+1)
		require.ErrorIs(t, refused, ErrInvalidPermits)
		_, invalid := l.TryAcquire(t.Context(), 0)
		require.ErrorIs(t, invalid, ErrInvalidPermits) // is not reported

		assert.Equal(t, []DecisionInfo{
			{Name: "limiter", Policy: "redisson", Permits: 3, Granted: true, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 8, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 7, Granted: true, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 11, Took: trip, Err: err},
			{Name: "limiter", Policy: "redisson", Permits: engine.MaxPermits + 1, Err: refused},
		}, decisions)
		assert.Equal(t, []RedisCallInfo{
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 3, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 8, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 50, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 11, Took: trip},
		}, calls)
		assert.Equal(t, []WaitingInfo{
			{Name: "limiter", Policy: "redisson", Change: 1, Length: 1}, {Name: "limiter", Policy: "redisson", Change: -1},
		}, waits)
	})
}
