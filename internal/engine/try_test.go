package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTakeUpTo_SharedCall_IsServedInOrder: the callers behind the first one share a call.
func TestTakeUpTo_SharedCall_IsServedInOrder(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 20, Interval: 10 * second})
		b.Take(l, 1)
		b.Latency.Store(int64(second))
		defer b.Latency.Store(0)
		before := b.Scripts.Load()
		up := func(permits int64) (int64, error) {
			granted, d, err := l.TakeUpTo(b.Context(), permits)
			if granted == 0 {
				assert.Positive(b, d.RetryAfter)
			}
			return granted, err
		}
		exactly := func(permits int64) (int64, error) {
			ok, err := l.TryAcquire(b.Context(), permits)
			if !ok {
				permits = 0
			}
			return permits, err
		}
		calls := []struct {
			call          func(int64) (int64, error)
			permits, want int64
		}{
			{exactly, 1, 1}, {exactly, 1, 1}, // two calls in flight
			{exactly, 5, 5}, {up, 3, 3}, {exactly, 10, 0}, {up, 3, 3}, {up, 50, 6}, {up, 2, 0}, {exactly, 1, 0},
		}
		got, errs := redistest.Crowd(len(calls), func(i int) (int64, error) { return calls[i].call(calls[i].permits) })
		for i, c := range calls {
			require.NoError(b, errs[i])
			assert.Equal(b, c.want, got[i], "call %d", i)
		}
		assert.EqualValues(b, 3, b.Scripts.Load()-before)
		b.Redis.Del("{limiter}:value") // the grants are as many
		b.Free(l, 0)
	})
}

// TestTakeUpTo_CallerLeaves_PartIsReleased: what was granted, not what was requested.
func TestTakeUpTo_CallerLeaves_PartIsReleased(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 4)
		b.Latency.Store(int64(2 * second))
		ctx, cancel := context.WithTimeout(b.Context(), second)
		defer cancel()
		granted, decision, err := l.TakeUpTo(ctx, 100)
		require.ErrorIs(b, err, context.DeadlineExceeded)
		assert.Zero(b, granted)
		assert.Zero(b, decision)
		b.Latency.Store(0)
		pass(3 * second)
		b.Free(l, 6)
		b.Redis.Del("{limiter}:value") // the grants are as many
		b.Free(l, 6)
	})
}

// TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit: a denial of 5 permits does not prove that none is
// free.
func TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: 10 * second}, rratelimiter.WithDenialCache(time.Hour))
		b.Take(l, 7)
		b.Full(l, 5)
		synctest.Wait()
		granted, _, err := l.TakeUpTo(b.Context(), 5)
		require.NoError(b, err)
		assert.EqualValues(b, 3, granted)
		asked := b.Scripts.Load()
		for range 10 { // the first call to Redis stores the denial of one
			granted, decision, err := l.TakeUpTo(b.Context(), 5)
			require.NoError(b, err)
			assert.Zero(b, granted)
			assert.Equal(b, rratelimiter.Decision{Limit: 10, RetryAfter: 10 * second, ResetAfter: 10 * second}, decision)
			synctest.Wait()
		}
		assert.Equal(b, asked+1, b.Scripts.Load())
		pass(10 * second)
		granted, _, err = l.TakeUpTo(b.Context(), 15)
		require.NoError(b, err)
		assert.EqualValues(b, 10, granted)
	})
}

// TestTakeUpTo_Lease_AddsToWhatRedisGrants: leased permits are free, too. A lease that holds all
// requested permits needs no call.
func TestTakeUpTo_Lease_AddsToWhatRedisGrants(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 1000, Interval: 10 * second}, rratelimiter.WithLease(500*time.Millisecond))
		for range 100 {
			b.Take(l, 1)
			pass(time.Millisecond)
		}
		asked := b.Scripts.Load()
		granted, _, err := l.TakeUpTo(b.Context(), 2)
		require.NoError(b, err)
		assert.EqualValues(b, 2, granted)
		assert.Equal(b, asked, b.Scripts.Load(), "granted from the lease")

		inRedis := b.Stored("{limiter}:value")
		granted, decision, err := l.TakeUpTo(b.Context(), inRedis+1)
		require.NoError(b, err)
		assert.Equal(b, inRedis+1, granted)
		assert.Equal(b, 1000-100-2-granted, decision.Remaining)
		assert.Positive(b, decision.Remaining)

		granted, decision, err = l.TakeUpTo(b.Context(), 5000)
		require.NoError(b, err)
		assert.Equal(b, 1000-100-2-inRedis-1, granted)
		assert.True(b, decision.Allowed)
		assert.Zero(b, decision.Remaining)
		assert.Zero(b, b.Stored("{limiter}:value"))
		granted, decision, err = l.TakeUpTo(b.Context(), 5000)
		require.NoError(b, err)
		assert.Zero(b, granted)
		assert.False(b, decision.Allowed)
		assert.Positive(b, decision.RetryAfter)
		require.NoError(b, b.client.Flush(b.Context()))
		b.Redis.Del("{limiter}:value") // the grants are as many
		b.Free(l, 0)
	})
}
