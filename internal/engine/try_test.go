package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit: a denial of 5 permits does not prove that none is
// free.
func TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Denials: time.Hour}, 10, 10*time.Second)
		take := func(permits int64) Result {
			result, err := l.TakeUpTo(t.Context(), permits)
			require.NoError(t, err)
			synctest.Wait()
			return result
		}
		f.RequireGranted(l, 7)
		f.RequireDenied(l, 5)
		synctest.Wait()
		assert.EqualValues(t, 3, take(5).Granted)
		asked := f.Scripts.Load()
		for range 10 { // the first call to Redis stores the denial of one
			assert.Equal(t, Answer{Limit: 10, RetryAfter: 10 * time.Second, ResetAfter: 10 * time.Second}, take(5).Answer)
		}
		assert.Equal(t, asked+1, f.Scripts.Load())
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 10, take(15).Granted)
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
