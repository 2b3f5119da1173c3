package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTakeUpTo_EveryPolicy_GrantsWhatIsFree: more than the policy can hold is allowed.
func TestTakeUpTo_EveryPolicy_GrantsWhatIsFree(t *testing.T) {
	for _, p := range everyPolicy[:7] {
		b := newBench(t)
		l := New(b.client, "name", p)
		for _, step := range []struct{ permits, granted, remaining int64 }{{4, 4, 6}, {engine.MostPermits, 6, 0}, {1, 0, 0}} {
			granted, d, err := l.TakeUpTo(t.Context(), step.permits)
			require.NoError(t, err)
			assert.Equal(t, step.granted, granted, "%T", p)
			assert.Equal(t, step.granted > 0, d.Allowed)
			assert.Equal(t, step.remaining, d.Remaining)
			peeked, err := l.Peek(t.Context())
			require.NoError(t, err)
			want := peeked[0]
			want.Allowed = d.Allowed
			if d.Allowed {
				want.RetryAfter = 0
			}
			assert.Equal(t, want, d, "%T: a denial counts until one permit is free", p)
		}
	}
	b := newBench(t)
	smooth := New(b.client, "name", everyPolicy[7])
	granted, _, err := smooth.TakeUpTo(t.Context(), 100)
	require.NoError(t, err)
	assert.EqualValues(t, 100, granted, "Smooth grants all at once, and then waits")
	granted, d, err := smooth.TakeUpTo(t.Context(), 100)
	require.NoError(t, err)
	assert.Zero(t, granted)
	assert.Equal(t, 90*time.Hour, d.RetryAfter)
}

// TestTakeUpTo_SeveralPolicies_GrantTheLeast: each takes the same number, a joined limiter of
// Redisson's layout too.
func TestTakeUpTo_SeveralPolicies_GrantTheLeast(t *testing.T) {
	b := newBench(t)
	quota := b.client.Limiter("quota")
	require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
	_, err := quota.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	l := Join(New(b.client, "name", FixedWindow{10, time.Hour, false}, TokenBucket{7, 1, time.Hour}), quota)
	for _, want := range []int64{4, 0} {
		granted, d, err := l.TakeUpTo(t.Context(), 100)
		require.NoError(t, err)
		assert.Equal(t, want, granted)
		assert.EqualValues(t, 5, d.Limit)
		assert.Equal(t, want == 0, d.RetryAfter > 0)
		peeked, err := l.Peek(t.Context())
		require.NoError(t, err)
		for i, remaining := range []int64{6, 3, 0} {
			assert.Equal(t, remaining, peeked[i].Remaining)
		}
	}
}

func TestTakeUpTo_InvalidPermits_AreRefused(t *testing.T) {
	b := newBench(t)
	for _, permits := range []int64{0, -1, engine.MostPermits + 1} {
		_, _, err := New(b.client, "name", everyPolicy[0]).TakeUpTo(t.Context(), permits)
		assert.ErrorIs(t, err, rratelimiter.ErrInvalidPermits, permits)
	}
	_, _, err := NewKeyed(b.client, "prefix").TakeUpTo(t.Context(), "key", 1)
	assert.ErrorIs(t, err, rratelimiter.ErrInvalidRate)
	assert.Empty(t, b.redis.Keys())
}

// TestTakeUpTo_CallersShareACall_GrantAllThatIsFree: one of them gets a part of what it wants.
func TestTakeUpTo_CallersShareACall_GrantAllThatIsFree(t *testing.T) {
	withRedis(t, func(b *fixture) {
		k := NewKeyed(b.client, "api", FixedWindow{50, time.Hour, false})
		_, _, err := k.TakeUpTo(b.Context(), "other", 1) // the script is loaded
		require.NoError(b, err)
		b.Latency.Store(int64(ms))
		calls := b.Scripts.Load()
		granted, errs := redistest.Crowd(20, func(i int) (int64, error) {
			if i%4 == 3 {
				ok, err := k.TryAcquire(b.Context(), "key", 2)
				if ok {
					return 2, err
				}
				return 0, err
			}
			granted, _, err := k.TakeUpTo(b.Context(), "key", 7)
			return granted, err
		})
		require.Equal(b, make([]error, 20), errs)
		assert.Equal(b, []int64{7, 7, 7, 2, 7, 7, 7, 2, 4}, granted[:9])
		assert.Equal(b, make([]int64, 11), granted[9:])
		assert.Less(b, b.Scripts.Load()-calls, int64(20))
	})
}

// TestTakeUpTo_CallerLeaves_PermitsAreRefunded: those that it was granted.
func TestTakeUpTo_CallerLeaves_PermitsAreRefunded(t *testing.T) {
	for _, p := range everyPolicy[:7] {
		withRedis(t, func(b *fixture) {
			l := New(b.client, "name", p)
			taken, _, err := l.TakeUpTo(b.Context(), 4)
			require.NoError(b, err)
			b.Latency.Store(int64(20 * ms))
			ctx, cancel := context.WithTimeout(b.Context(), 10*ms)
			defer cancel()
			_, _, err = l.TakeUpTo(ctx, 100)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			redistest.Pass(100 * ms)
			b.Latency.Store(0)
			peeked, err := l.Peek(b.Context())
			require.NoError(b, err)
			assert.Equal(b, 10-taken, peeked[0].Remaining, "%T", p)
		})
	}
}

// TestTakeUpTo_Lease_DoesNotBoundTheGrant: Redis has more than the lease. Once Redis has none,
// leased permits are released for the caller.
func TestTakeUpTo_Lease_DoesNotBoundTheGrant(t *testing.T) {
	window := FixedWindow{1000, time.Hour, false}
	inLease(t, []Policy{window}, func(b *redistest.Fixture, l *Limiter) {
		require.Equal(b, 100, often(b, l, 100, 20*time.Microsecond))
		calls := b.Scripts.Load()
		granted, _, err := l.TakeUpTo(b.Context(), 2)
		require.NoError(b, err)
		assert.EqualValues(b, 2, granted)
		assert.Equal(b, calls, b.Scripts.Load(), "granted from the lease")
		free, err := New(rratelimiter.New(b.Conn), "name", window).Peek(b.Context())
		require.NoError(b, err)
		taken, sum := int64(-1), int64(102)
		for taken != 0 {
			var d rratelimiter.Decision
			taken, d, err = l.TakeUpTo(b.Context(), 1000)
			require.NoError(b, err)
			if sum == 102 {
				assert.GreaterOrEqual(b, taken, free[0].Remaining)
			}
			assert.Equal(b, taken > 0, d.Allowed)
			sum += taken
		}
		assert.EqualValues(b, 1000, sum)
	})
}

// TestTakeUpTo_DenialCache_DeniesUntilOneIsFree.
func TestTakeUpTo_DenialCache_DeniesUntilOneIsFree(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(rratelimiter.New(b.Conn, rratelimiter.WithDenialCache(time.Hour)), "name", TokenBucket{2, 1, time.Minute})
		var calls []int64
		take := func(want int64) {
			b.Helper()
			before := b.Scripts.Load()
			granted, d, err := l.TakeUpTo(b.Context(), 5)
			require.NoError(b, err)
			assert.Equal(b, want, granted)
			assert.Equal(b, want == 0, d.RetryAfter > 0)
			synctest.Wait()
			calls = append(calls, b.Scripts.Load()-before)
		}
		take(2)
		ok, err := l.TryAcquire(b.Context(), 2)
		require.NoError(b, err)
		require.False(b, ok)
		take(0) // the denial of 2 permits does not deny 1
		take(0)
		redistest.Pass(time.Minute)
		take(1)
		assert.Equal(b, []int64{1, 1, 0, 1}, calls)
	})
}

// TestTakeUpTo_Observer_SeesWhatWasGranted, or what was denied.
func TestTakeUpTo_Observer_SeesWhatWasGranted(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var seen []int64
		client := rratelimiter.New(b.Conn, rratelimiter.WithObserver(&rratelimiter.Observer{
			Decision: func(_ context.Context, d rratelimiter.DecisionInfo) { seen = append(seen, d.Permits) },
		}))
		l := New(client, "name", FixedWindow{5, time.Hour, false})
		for range 3 {
			_, _, err := l.TakeUpTo(b.Context(), 4)
			require.NoError(b, err)
		}
		assert.Equal(b, []int64{4, 1, 4}, seen)
	})
}
