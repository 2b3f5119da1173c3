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
	withRedis(t, func(b *fixture) {
		var reported int
		o := &Observer{Decision: func(context.Context, DecisionInfo) { reported++ }}
		given := WithObserver(o)
		o.Decision = nil
		b.Take(b.limiter(Rate{Permits: 10, Interval: time.Hour}, given), 1)
		assert.Equal(b, 1, reported)
	})
}

// TestObserver_Calls_AreReportedWithTheirNames: a decision, the call to Redis, and the wait.
func TestObserver_Calls_AreReportedWithTheirNames(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var decisions []DecisionInfo
		var calls []RedisCallInfo
		var waits []WaitingInfo
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithObserver(&Observer{
			Decision:  func(_ context.Context, d DecisionInfo) { decisions = append(decisions, d) },
			RedisCall: func(_ context.Context, c RedisCallInfo) { calls = append(calls, c) },
			Waiting:   func(_ context.Context, w WaitingInfo) { waits = append(waits, w) },
		}))
		const trip = 10 * time.Millisecond
		b.Latency.Store(int64(trip))
		require.NoError(b, l.Acquire(b.Context(), 3))
		b.Full(l, 8)
		_, err := l.TryAcquire(b.Context(), 11)
		require.ErrorIs(b, err, ErrPermitsExceedRate)
		_, refused := l.TryAcquire(b.Context(), engine.MaxPermits+1)
		require.ErrorIs(b, refused, ErrInvalidPermits)
		_, invalid := l.TryAcquire(b.Context(), 0)
		require.ErrorIs(b, invalid, ErrInvalidPermits) // is not reported

		assert.Equal(b, []DecisionInfo{
			{Name: "limiter", Policy: "redisson", Permits: 3, Granted: true, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 8, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 11, Took: trip, Err: err},
			{Name: "limiter", Policy: "redisson", Permits: engine.MaxPermits + 1, Err: refused},
		}, decisions)
		assert.Equal(b, []RedisCallInfo{
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 3, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 8, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 11, Took: trip},
		}, calls)
		assert.Equal(b, []WaitingInfo{
			{Name: "limiter", Policy: "redisson", Change: 1, Length: 1}, {Name: "limiter", Policy: "redisson", Change: -1},
		}, waits)
	})
}
