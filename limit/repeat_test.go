package limit

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
)

// neverFinishes replies to every script that it has more to do.
type neverFinishes struct {
	rueidis.Client
	calls atomic.Int64
	trip  time.Duration
	reply rueidis.RedisResult
}

func newNeverFinishes(b *fixture, trip time.Duration) *neverFinishes {
	again := b.Conn.B().Arbitrary("EVAL", "return {1, 0}", "0").Build()
	return &neverFinishes{Client: b.Conn, trip: trip, reply: b.Conn.Do(b.Context(), again)}
}

func (c *neverFinishes) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	c.calls.Add(1)
	time.Sleep(c.trip)
	return c.reply
}

func TestScript_NeverFinishes_EndsWithItsCaller(t *testing.T) {
	withRedis(t, func(b *fixture) {
		conn := newNeverFinishes(b, ms)
		l := New(rratelimiter.New(conn), "name", SlidingLog{5, time.Second}, SlidingWindow{5, time.Second, 0})
		for name, call := range map[string]func(ctx context.Context) error{
			"TryAcquire": func(ctx context.Context) error { return errOf(l.TryAcquire(ctx, 1)) },
			"Acquire":    func(ctx context.Context) error { return l.Acquire(ctx, 1) },
			"Peek":       func(ctx context.Context) error { return errOf(l.Peek(ctx)) },
			"Release":    func(ctx context.Context) error { return l.Release(ctx, 1) },
			"Charge":     func(ctx context.Context) error { return errOf(l.Charge(ctx, 1)) },
		} {
			ctx, cancel := context.WithTimeout(b.Context(), 20*ms)
			assert.ErrorIs(b, call(ctx), context.DeadlineExceeded, name)
			cancel()
			time.Sleep(10 * ms)
			synctest.Wait()
			before := conn.calls.Load()
			time.Sleep(time.Second)
			assert.Equal(b, before, conn.calls.Load(), "%s: calls after its caller", name)
		}
	})
}

func TestScript_NeverFinishes_EndsWithAnError(t *testing.T) {
	withRedis(t, func(b *fixture) {
		conn := newNeverFinishes(b, 0)
		_, err := New(rratelimiter.New(conn), "name", SlidingLog{5, time.Second}).Peek(context.WithoutCancel(b.Context()))
		require.ErrorContains(b, err, `limiter "name"`)
		require.ErrorContains(b, err, "has not finished")
		assert.EqualValues(b, engine.MaxPages, conn.calls.Load())
	})
}

func TestTake_CallsShareAScript_ResetAfterIsOfTheirOrder(t *testing.T) {
	for _, p := range []struct {
		policy Policy
		model  policymodel.Model
	}{
		{FixedWindow{10, time.Hour, false}, &policymodel.FixedWindow{Permits: 10, Interval: 3600e6}},
		{SlidingWindow{10, time.Second, 0}, &policymodel.SlidingWindow{Permits: 10, Cell: 1e5, Cells: 10}},
		{TokenBucket{10, 3, time.Second}, &policymodel.TokenBucket{Capacity: 10, Refill: 3, Interval: 1e6}},
		{LeakyBucket{10, 3, time.Second}, &policymodel.TokenBucket{Capacity: 10, Refill: 3, Interval: 1e6, Leaky: true}},
		{Smooth{Permits: 3, Interval: time.Second, Burst: 2 * time.Second}, policymodel.NewSmooth(3, 2, 0, 0)},
	} {
		b := newBench(t)
		var asks []engine.Ask
		for _, permits := range []int64{2, 1, 4} {
			asks = append(asks, engine.Ask{Permits: permits, Detail: true})
		}
		for _, r := range b.ask(New(b.client, "name", p.policy), asks...).Requests {
			require.True(b, r.Allowed)
			require.True(b, p.model.Take(b.now, r.Permits))
			require.InDelta(b, micros(p.model.Reset(b.now)), r.ResetAfter, float64(time.Microsecond), "%T", p.policy)
		}
	}
}
