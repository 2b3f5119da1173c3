package limit

import (
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
	for _, p := range countingPolicies {
		b := newBench(t)
		l := New(b.client, "name", p)
		for _, step := range []struct{ permits, granted, remaining int64 }{{4, 4, 6}, {engine.MaxPermits, 6, 0}, {1, 0, 0}} {
			granted, d := mustTakeUpTo(t, l, step.permits)
			assert.Equal(t, step.granted, granted, "%T", p)
			assert.Equal(t, step.granted > 0, d.Allowed)
			assert.Equal(t, step.remaining, d.Remaining)
			peeked := mustPeek(t, l)
			want := peeked[0]
			want.Allowed = d.Allowed
			if d.Allowed {
				want.RetryAfter = 0
			}
			assert.Equal(t, want, d, "%T: a denial counts until one permit is free", p)
		}
	}
	b := newBench(t)
	smooth := New(b.client, "name", tenSmooth)
	granted, _ := mustTakeUpTo(t, smooth, 100)
	assert.EqualValues(t, 100, granted, "Smooth grants all at once, and then waits")
	granted, d := mustTakeUpTo(t, smooth, 100)
	assert.Zero(t, granted)
	assert.Equal(t, 90*time.Hour, d.RetryAfter)
}

// TestTakeUpTo_SeveralPolicies_GrantTheLeast: each takes the same number, a joined limiter of
// Redisson's layout too.
func TestTakeUpTo_SeveralPolicies_GrantTheLeast(t *testing.T) {
	b := newBench(t)
	quota := b.client.Limiter("quota")
	require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
	must(t, quota.TryAcquire, 1)
	l := Join(New(b.client, "name", FixedWindow{10, time.Hour, false}, TokenBucket{7, 1, time.Hour}), quota)
	for _, want := range []int64{4, 0} {
		granted, d := mustTakeUpTo(t, l, 100)
		assert.Equal(t, want, granted)
		assert.EqualValues(t, 5, d.Limit)
		assert.Equal(t, want == 0, d.RetryAfter > 0)
		peeked := mustPeek(t, l)
		for i, remaining := range []int64{6, 3, 0} {
			assert.Equal(t, remaining, peeked[i].Remaining)
		}
	}
	forecast := b.ask(l, engine.Ask{Permits: 1, Detail: true}).Forecast
	assert.EqualValues(t, 5, forecast.Limit(), "a queue denies larger requests")
}

func TestTakeUpTo_InvalidPermits_AreRefused(t *testing.T) {
	b := newBench(t)
	for _, permits := range []int64{0, -1, engine.MaxPermits + 1} {
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

// TestTakeUpTo_Lease_DoesNotBoundTheGrant: Redis has more than the lease. Once Redis has none,
// leased permits are released for the caller.
func TestTakeUpTo_Lease_DoesNotBoundTheGrant(t *testing.T) {
	window := FixedWindow{1000, time.Hour, false}
	inLease(t, []Policy{window}, func(b *redistest.Fixture, l *Limiter) {
		require.Equal(b, 100, b.Often(l, 100, 20*time.Microsecond))
		calls := b.Scripts.Load()
		granted, _ := mustTakeUpTo(b, l, 2)
		assert.EqualValues(b, 2, granted)
		assert.Equal(b, calls, b.Scripts.Load(), "granted from the lease")
		free := mustPeek(b, New(rratelimiter.New(b.Conn), "name", window))
		taken, sum := int64(-1), int64(102)
		for taken != 0 {
			var d rratelimiter.Decision
			taken, d = mustTakeUpTo(b, l, 1000)
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
			granted, d := mustTakeUpTo(b, l, 5)
			assert.Equal(b, want, granted)
			assert.Equal(b, want == 0, d.RetryAfter > 0)
			synctest.Wait()
			calls = append(calls, b.Scripts.Load()-before)
		}
		take(2)
		require.False(b, must(b, l.TryAcquire, 2))
		take(0) // the denial of 2 permits does not deny 1
		take(0)
		redistest.Pass(time.Minute)
		take(1)
		assert.Equal(b, []int64{1, 1, 0, 1}, calls)
	})
}
