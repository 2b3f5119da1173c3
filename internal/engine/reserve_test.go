package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reserving is a fake whose waiters make reservations for a second later.
type reserving struct {
	*fake
	refunds atomic.Int64 // requests of which the permits were returned
}

func (l *reserving) Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error) {
	again, err = l.fake.Answer(b, reply)
	for _, r := range b.Requests {
		r.At = time.Now().Add(second)
	}
	return again, err
}

func (l *reserving) Refund(b *Batch) func(context.Context) {
	l.refunds.Add(int64(len(b.Lost)))
	return func(context.Context) {}
}

// TestReserve_CallerLeaves_IsReturnedOnce: during the call, or while it waits for the time of its
// reservation.
func TestReserve_CallerLeaves_IsReturnedOnce(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"during the call": 5 * time.Millisecond, "before its time": 500 * time.Millisecond,
	} {
		runWithServer(t, name, func(f *fixture) {
			l := &reserving{fake: f.limiter(10, time.Hour)}
			l.Protocol, l.Ahead, l.Most = l, second, MaxRequests
			l.Only = func(int64) time.Duration { return 0 }
			f.Latency.Store(int64(10 * time.Millisecond))
			ctx, cancel := context.WithTimeout(f.Context(), after)
			defer cancel()
			require.ErrorIs(f, l.Acquire(ctx, 1), context.DeadlineExceeded)
			require.NoError(f, l.Engine.Flush(f.Context()))
			pass(second)
			assert.EqualValues(f, 1, l.refunds.Load())
			f.idle(l.fake)
		})
	}
}
