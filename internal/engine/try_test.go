package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTakeUpTo_SharedCall_IsServedInOrder: the callers behind the first one share a call.
func TestTakeUpTo_SharedCall_IsServedInOrder(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.limiter(20, 10*second)
		f.Take(l, 1)
		f.Latency.Store(int64(second))
		defer f.Latency.Store(0)
		before := f.Scripts.Load()
		up := func(permits int64) (int64, error) {
			result, err := l.TakeUpTo(f.Context(), permits)
			if result.Granted == 0 {
				assert.Positive(f, result.RetryAfter)
			}
			return result.Granted, err
		}
		exactly := func(permits int64) (int64, error) {
			ok, err := l.TryAcquire(f.Context(), permits)
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
			require.NoError(f, errs[i])
			assert.Equal(f, c.want, got[i], "call %d", i)
		}
		assert.EqualValues(f, 3, f.Scripts.Load()-before)
		assert.EqualValues(f, 0, f.free(l))
	})
}

// TestTakeUpTo_CallerLeaves_PartIsReleased: what was granted, not what was requested.
func TestTakeUpTo_CallerLeaves_PartIsReleased(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.limiter(10, 10*second)
		f.Take(l, 4)
		f.Latency.Store(int64(2 * second))
		ctx, cancel := context.WithTimeout(f.Context(), second)
		defer cancel()
		result, err := l.TakeUpTo(ctx, 100)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		assert.Zero(f, result)
		f.Latency.Store(0)
		pass(3 * second)
		assert.EqualValues(f, 6, f.free(l))
		assert.EqualValues(f, 6, f.free(l))
	})
}

// TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit: a denial of 5 permits does not prove that none is
// free.
func TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.open(Settings{Denials: time.Hour}, 10, 10*second)
		f.Take(l, 7)
		f.Full(l, 5)
		synctest.Wait()
		result, err := l.TakeUpTo(f.Context(), 5)
		require.NoError(f, err)
		assert.EqualValues(f, 3, result.Granted)
		asked := f.Scripts.Load()
		for range 10 { // the first call to Redis stores the denial of one
			result, err := l.TakeUpTo(f.Context(), 5)
			require.NoError(f, err)
			assert.Zero(f, result.Granted)
			assert.Equal(f, Answer{Limit: 10, RetryAfter: 10 * second, ResetAfter: 10 * second}, result.Answer)
			synctest.Wait()
		}
		assert.Equal(f, asked+1, f.Scripts.Load())
		pass(10 * second)
		result, err = l.TakeUpTo(f.Context(), 15)
		require.NoError(f, err)
		assert.EqualValues(f, 10, result.Granted)
	})
}

// TestTakeUpTo_Lease_AddsToWhatRedisGrants: leased permits are free, too. A lease that holds all
// requested permits needs no call.
func TestTakeUpTo_Lease_AddsToWhatRedisGrants(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.open(Settings{Lease: 500 * time.Millisecond}, 1000, 10*second)
		take := func(permits int64) Result {
			result, err := l.TakeUpTo(f.Context(), permits)
			require.NoError(f, err)
			return result
		}
		require.Equal(f, 100, f.Often(l, 100, time.Millisecond))
		asked := f.Scripts.Load()
		assert.EqualValues(f, 2, take(2).Granted)
		assert.Equal(f, asked, f.Scripts.Load(), "granted from the lease")

		inRedis := f.free(l)
		result := take(inRedis + 1)
		assert.Equal(f, inRedis+1, result.Granted)
		assert.Equal(f, 1000-100-2-result.Granted, result.Remaining)
		assert.Positive(f, result.Remaining)

		result = take(5000)
		assert.Equal(f, 1000-100-2-inRedis-1, result.Granted)
		assert.True(f, result.Allowed)
		assert.Zero(f, result.Remaining)
		result = take(5000)
		assert.Zero(f, result.Granted)
		assert.False(f, result.Allowed)
		assert.Positive(f, result.RetryAfter)
		require.NoError(f, l.Engine.Flush(f.Context()))
		assert.Zero(f, f.free(l))
	})
}
