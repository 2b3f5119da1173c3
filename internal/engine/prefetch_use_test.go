package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

const shortPrefetch = 10 * time.Millisecond

// inPrefetch runs a test with prefetches of 10 ms and calls of half a millisecond. It requires that no
// state is left.
func inPrefetch(t *testing.T, limit int64, every time.Duration, test func(t *testing.T, f *fixture, l *fake)) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Prefetch: shortPrefetch}, limit, every)
		f.Latency.Store(int64(500 * time.Microsecond))
		test(t, f, l)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		f.idle(l)
	})
}

// prefetching makes an engine prefetch: callers take 300 permits in 9 ms.
func (f *fixture) prefetching(l *fake) {
	f.Helper()
	require.Equal(f, 300, f.CountGranted(l, 300, 30*time.Microsecond))
}

func TestPrefetch_ManyCalls_NeedNoRedis(t *testing.T) {
	inPrefetch(t, 1_000_000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		require.Equal(t, 1000, f.CountGranted(l, 1000, 20*time.Microsecond))
		before, start := f.Scripts.Load(), time.Now()
		require.Equal(t, 5000, f.CountGranted(l, 5000, 20*time.Microsecond))
		assert.Equal(t, 100*time.Millisecond, time.Since(start), "no caller waits for Redis")
		assert.LessOrEqual(t, f.Scripts.Load()-before, int64(30), "calls in a tenth of a second")

		result := redistest.Result(t, l.Take, 1)
		assert.True(t, result.Allowed)
		assert.Equal(t, int64(1_000_000), result.Limit)
		assert.InDelta(t, 1_000_000-6001, result.Remaining, 200, "permits that are being released are not counted")
		assert.InDelta(t, 10*time.Second+shortPrefetch, result.ResetAfter, float64(shortPrefetch))
		time.Sleep(50 * time.Millisecond)
		assert.EqualValues(t, 1_000_000-6001, f.free(l))
	})
}

// TestPrefetch_LargeRequest_UsesWhatIsPrefetchedAndFree, although another client has released permits: the
// reply that denies it reports the free permits, not the prefetch.
func TestPrefetch_LargeRequest_UsesWhatIsPrefetchedAndFree(t *testing.T) {
	for _, way := range ways {
		for kind, maxAge := range map[string]time.Duration{"": 0, ", denials cached": time.Hour} {
			runWithServer(t, way.name+kind, func(t *testing.T, f *fixture) {
				l := f.open(Settings{Prefetch: shortPrefetch, Denials: maxAge}, 1000, 10*time.Second)
				other := open(New(Settings{Redis: f.QuickConn()}), "limiter", 1000, 10*time.Second)
				f.RequireGranted(other, 400)
				f.Latency.Store(int64(500 * time.Microsecond))
				f.prefetching(l)
				time.Sleep(time.Millisecond) // the next prefetch may be on its way
				require.Less(t, f.free(l), int64(300), "permits are prefetched")
				require.NoError(t, other.Release(t.Context(), 400))
				began := time.Now()
				require.NoError(t, way.call(t.Context(), l, 700))
				assert.Less(t, time.Since(began), 5*time.Millisecond)
				time.Sleep(20 * time.Millisecond)
				assert.Zero(t, f.free(l))
			})
		}
	}
}

func TestPrefetch_RequestExceedsBoth_PrefetchStays(t *testing.T) {
	inPrefetch(t, 1000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		f.prefetching(l)
		time.Sleep(2 * time.Millisecond) // the next prefetch may be on its way
		before := f.free(l)
		f.RequireDenied(l, 701)
		assert.Equal(t, before, f.free(l))
	})
}

// TestPrefetch_Remaining_CountsPrefetchedPermits: of all prefetches, in the call that fetches one, and what
// Redis grants since.
func TestPrefetch_Remaining_CountsPrefetchedPermits(t *testing.T) {
	for name, permits := range map[string][]int64{
		"one by one": slices.Repeat([]int64{1}, 2000), "more than is prefetched": {1, 20, 20, 5, 820, 1, 1},
	} {
		for way, take := range map[string]func(*fake, context.Context, int64) (Result, error){
			"Take": (*fake).Take, "TakeWithin": (*fake).TakeWithin,
		} {
			runWithServer(t, way+", "+name, func(t *testing.T, f *fixture) {
				l := f.open(Settings{Prefetch: 100 * time.Millisecond}, 100_000, time.Hour)
				taken := int64(0)
				for _, n := range permits {
					time.Sleep(20 * time.Microsecond)
					taken += n
					result, err := take(l, t.Context(), n)
					require.NoError(t, err)
					require.Equal(t, 100_000-taken, result.Remaining, "%d are taken", taken)
				}
			})
		}
	}
}

// TestTakeUpTo_Prefetch_AddsToWhatRedisGrants: prefetched permits are free, too. A prefetch that holds all
// requested permits needs no call.
func TestTakeUpTo_Prefetch_AddsToWhatRedisGrants(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Prefetch: 500 * time.Millisecond}, 1000, 10*time.Second)
		take := func(permits int64) Result { return redistest.Result(t, l.TakeUpTo, permits) }
		require.Equal(t, 100, f.CountGranted(l, 100, time.Millisecond))
		asked := f.Scripts.Load()
		assert.EqualValues(t, 2, take(2).Granted)
		assert.Equal(t, asked, f.Scripts.Load(), "granted from the prefetch")

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

// TestFlush_CallsUnderWay_WaitsForThem: a program that closes its connection after Flush loses no
// permits.
func TestFlush_CallsUnderWay_WaitsForThem(t *testing.T) {
	inPrefetch(t, 1_000_000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		free := int64(1_000_000)
		for times := 100; times < 200; times++ {
			free -= int64(f.CountGranted(l, times, 30*time.Microsecond))
			require.NoError(t, l.Engine.Flush(t.Context()))
			sent := f.Sent.Load()
			time.Sleep(5 * time.Millisecond)
			require.Equal(t, sent, f.Sent.Load(), "calls that come after it")
			require.Equal(t, free, f.free(l))
		}
	})
}

// TestFlush_ManyPrefetchesOfMovingSlot_EndsAfterAMinute, and not after a minute for each. It returns the
// error of a limiter.
func TestFlush_ManyPrefetchesOfMovingSlot_EndsAfterAMinute(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		g := New(Settings{Redis: f.Conn, Prefetch: time.Second})
		for i := range 2 * 16 {
			l := open(g, fmt.Sprint(i), 100, time.Hour)
			for range 40 {
				f.RequireGranted(l, 1)
			}
		}
		f.fail(moving)
		start := time.Now()
		assert.ErrorContains(t, g.Flush(context.Background()), ": context deadline exceeded")
		assert.InDelta(t, time.Minute, time.Since(start), float64(2*time.Second))
		f.fail("")
		require.NoError(t, g.Flush(t.Context()), "nothing is prefetched any more")
	})
}
