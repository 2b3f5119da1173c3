package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTakeUpTo_SharedCall_IsServedInOrder: the callers behind the first one share a call.
func TestTakeUpTo_SharedCall_IsServedInOrder(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(20, 10*time.Second)
		f.RequireGranted(l, 1)
		f.Latency.Store(int64(time.Second))
		defer f.Latency.Store(0)
		before := f.Scripts.Load()
		up := func(permits int64) (int64, error) {
			result, err := l.TakeUpTo(t.Context(), permits)
			if result.Granted == 0 {
				assert.Positive(t, result.RetryAfter)
			}
			return result.Granted, err
		}
		exactly := func(permits int64) (int64, error) {
			ok, err := l.TryAcquire(t.Context(), permits)
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
			require.NoError(t, errs[i])
			assert.Equal(t, c.want, got[i], "call %d", i)
		}
		assert.EqualValues(t, 3, f.Scripts.Load()-before)
		assert.EqualValues(t, 0, f.free(l))
	})
}

// TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit: a denial of 5 permits does not prove that none is
// free.
func TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Denials: time.Hour}, 10, 10*time.Second)
		f.RequireGranted(l, 7)
		f.RequireDenied(l, 5)
		synctest.Wait()
		result, err := l.TakeUpTo(t.Context(), 5)
		require.NoError(t, err)
		assert.EqualValues(t, 3, result.Granted)
		asked := f.Scripts.Load()
		for range 10 { // the first call to Redis stores the denial of one
			result, err := l.TakeUpTo(t.Context(), 5)
			require.NoError(t, err)
			assert.Zero(t, result.Granted)
			assert.Equal(t, Answer{Limit: 10, RetryAfter: 10 * time.Second, ResetAfter: 10 * time.Second}, result.Answer)
			synctest.Wait()
		}
		assert.Equal(t, asked+1, f.Scripts.Load())
		time.Sleep(10 * time.Second)
		result, err = l.TakeUpTo(t.Context(), 15)
		require.NoError(t, err)
		assert.EqualValues(t, 10, result.Granted)
	})
}

// TestTakeUpTo_Lease_AddsToWhatRedisGrants: leased permits are free, too. A lease that holds all
// requested permits needs no call.
func TestTakeUpTo_Lease_AddsToWhatRedisGrants(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Lease: 500 * time.Millisecond}, 1000, 10*time.Second)
		take := func(permits int64) Result {
			result, err := l.TakeUpTo(t.Context(), permits)
			require.NoError(t, err)
			return result
		}
		require.Equal(t, 100, f.CountGranted(l, 100, time.Millisecond))
		asked := f.Scripts.Load()
		assert.EqualValues(t, 2, take(2).Granted)
		assert.Equal(t, asked, f.Scripts.Load(), "granted from the lease")

		inRedis := f.free(l)
		result := take(inRedis + 1)
		assert.Equal(t, inRedis+1, result.Granted)
		assert.Equal(t, 1000-100-2-result.Granted, result.Remaining)
		assert.Positive(t, result.Remaining)

		result = take(5000)
		assert.Equal(t, 1000-100-2-inRedis-1, result.Granted)
		assert.True(t, result.Allowed)
		assert.Zero(t, result.Remaining)
		result = take(5000)
		assert.Zero(t, result.Granted)
		assert.False(t, result.Allowed)
		assert.Positive(t, result.RetryAfter)
		require.NoError(t, l.Engine.Flush(t.Context()))
		assert.Zero(t, f.free(l))
	})
}
