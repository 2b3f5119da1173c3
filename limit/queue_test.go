package limit

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestAcquire_ManyCallers_AreServedInOrder: each is served when all policies have permits, with
// about one call to Redis for each time that permits return.
func TestAcquire_ManyCallers_AreServedInOrder(t *testing.T) {
	for name, test := range map[string]struct {
		policies []Policy
		want     []time.Duration
		calls    int64
	}{
		"FixedWindow": {[]Policy{FixedWindow{2, time.Second, false}},
			[]time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}, 6},
		"SlidingWindow": {[]Policy{SlidingWindow{2, time.Second, 0}},
			[]time.Duration{0, 0, 1100 * ms, 1100 * ms, 2200 * ms}, 6},
		"SlidingLog": {[]Policy{SlidingLog{2, time.Second}},
			[]time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}, 6},
		"two at once": {
			[]Policy{FixedWindow{2, time.Second, false}, TokenBucket{3, 1, 2 * time.Second}},
			[]time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second}, 8,
		},
		"several, each of which could reserve alone": {
			[]Policy{TokenBucket{1, 10, time.Second}, Smooth{Permits: 5, Interval: time.Second, Burst: ms},
				LeakyBucket{3, 10, time.Second}},
			[]time.Duration{0, 200 * ms, 400 * ms, 600 * ms}, 8,
		},
	} {
		runWithRedis(t, name, func(b *fixture) {
			l := New(b.client, "name", test.policies...)
			start := time.Now()
			took := make([]time.Duration, len(test.want))
			var callers sync.WaitGroup
			for i := range took {
				callers.Go(func() {
					assert.NoError(b, l.Acquire(b.Context(), 1))
					took[i] = time.Since(start)
				})
				synctest.Wait()
			}
			callers.Wait()
			for i := range took {
				// The fake clock begins at a whole second, and a wait ends in whole
				// milliseconds.
				assert.InDelta(b, test.want[i], took[i], float64(2*ms), "caller %d of %v", i, took)
			}
			assert.LessOrEqual(b, b.Scripts.Load(), test.calls)
		})
	}
}

// TestTryAcquireWithin_UnreachableTimeout_ReturnsAtOnce: a caller that can be served in time waits,
// behind others and over the ends of windows.
func TestTryAcquireWithin_UnreachableTimeout_ReturnsAtOnce(t *testing.T) {
	for name, policy := range map[string]Policy{
		"FixedWindow": FixedWindow{4, time.Second, false}, "SlidingLog": SlidingLog{4, time.Second},
		"SlidingWindow": SlidingWindow{4, time.Second, 0},
	} {
		runWithRedis(t, name, func(b *fixture) {
			l := New(b.client, "name", policy)
			require.True(b, must(b, l.Take, 4).Allowed)
			start := time.Now()
			var callers sync.WaitGroup
			callers.Go(func() { assert.NoError(b, l.Acquire(b.Context(), 4)) }) // after a window
			synctest.Wait()
			assert.False(b, mustWait(b, l, 1, 1500*ms))
			ctx, cancel := context.WithTimeout(b.Context(), 1500*ms)
			defer cancel()
			require.ErrorIs(b, l.Acquire(ctx, 1), context.DeadlineExceeded)
			assert.Less(b, time.Since(start), 10*ms, "both return at once")
			assert.True(b, mustWait(b, l, 1, 2500*ms))
			assert.Less(b, time.Since(start), 2300*ms)
			callers.Wait()
		})
	}
}

// TestLimiter_CallerLeaves_PermitsAreRefunded: permits that arrive later return to each policy and
// to a limiter of Redisson's layout.
func TestLimiter_CallerLeaves_PermitsAreRefunded(t *testing.T) {
	withRedis(t, func(b *fixture) {
		quota := b.client.Limiter("{t}:quota")
		require.NoError(b, quota.SetRate(b.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		l := Join(New(b.client, "{t}:own", FixedWindow{10, time.Hour, false}, SlidingLog{10, time.Hour},
			SlidingWindow{10, time.Hour, 0},
			TokenBucket{10, 1, time.Hour}, LeakyBucket{10, 1, time.Hour}, Calendar{10, Year, nil}), quota)
		must(b, l.Take, 2) // and the scripts are loaded
		require.NoError(b, l.Release(b.Context(), 1))

		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return errOf(l.TryAcquire(ctx, 3)) },
			func(ctx context.Context) error { return l.Acquire(ctx, 3) },
		} {
			b.Latency.Store(int64(100 * ms))
			ctx, cancel := context.WithTimeout(b.Context(), 50*ms)
			assert.ErrorIs(b, call(ctx), context.DeadlineExceeded)
			cancel()
			redistest.Pass(time.Second)
			b.Latency.Store(0)
			for i, d := range mustPeek(b, l) {
				assert.EqualValues(b, 9, d.Remaining, "policy %d", i)
			}
		}
		assert.NoError(b, l.Reset(b.Context()))
	})
}

// TestDenialCache_Policies_DeniesUntilAChange: the change is one by this Client.
func TestDenialCache_Policies_DeniesUntilAChange(t *testing.T) {
	withRedis(t, func(b *fixture) {
		client := rratelimiter.New(b.Conn, rratelimiter.WithDenialCache(time.Hour))
		l := New(client, "name", FixedWindow{5, time.Hour, false}, TokenBucket{10, 1, time.Hour})
		refused := func(permits int64) (rratelimiter.Decision, bool) {
			before := b.Scripts.Load()
			d := must(b, l.Take, permits)
			require.False(b, d.Allowed)
			synctest.Wait()
			return d, b.Scripts.Load() == before
		}
		must(b, l.Take, 4)
		first, memory := refused(2)
		assert.False(b, memory)
		redistest.Pass(time.Minute)
		cached, memory := refused(2)
		assert.True(b, memory)
		first.RetryAfter -= time.Minute
		first.ResetAfter -= time.Minute
		assert.Equal(b, first, cached)
		before := b.Scripts.Load()
		each := must(b, l.TakeEach, 2)
		assert.Equal(b, before, b.Scripts.Load(), "calls of Redis")
		assert.Equal(b, []rratelimiter.Decision{
			{Limit: 5, Remaining: 1, RetryAfter: cached.RetryAfter, ResetAfter: cached.RetryAfter},
			{Allowed: true, Limit: 10, Remaining: 6, ResetAfter: cached.ResetAfter},
		}, each)

		// A change of one of its keys, by another limiter with that key.
		require.NoError(b, Join(New(client, "name", FixedWindow{7, time.Hour, false})).Release(b.Context(), 4))
		assert.True(b, must(b, l.Take, 2).Allowed)
	})
}

// TestTake_CallsShareAScript_DeniedAnswerIsOfItsEnd: RetryAfter counts the permits of requests
// behind a denied one, and so does Remaining.
func TestTake_CallsShareAScript_DeniedAnswerIsOfItsEnd(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.client, "name", SlidingLog{10, 10 * time.Second})
		b.Take(l, 2)
		redistest.Pass(time.Second)
		b.Latency.Store(int64(ms)) // the others share the call that follows the first one's
		permits := []int64{1, 1, 1, 7, 1}
		answers, errs := redistest.Crowd(len(permits), func(i int) ([]rratelimiter.Decision, error) {
			return l.TakeEach(b.Context(), permits[i])
		})
		require.Equal(b, make([]error, len(permits)), errs)
		for _, denied := range answers[3] {
			assert.False(b, denied.Allowed)
			assert.Equal(b, int64(4), denied.Remaining)
			assert.InDelta(b, 10*time.Second, denied.RetryAfter, float64(3*ms))
		}
	})
}
