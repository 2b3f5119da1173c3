package rratelimiter

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestTakeUpTo_Window_GrantsWhatIsFree(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		t.Run(typ.String(), func(t *testing.T) {
			withRedis(t, func(b *fixture) {
				l := b.limiter(Rate{Type: typ, Permits: 10, Interval: 10 * second})
				start := time.Now()
				for _, step := range []struct {
					at      time.Duration
					permits int64
					granted int64
					want    Decision
				}{
					{0, 4, 4, Decision{Remaining: 6, ResetAfter: 10 * second}},
					{second, 7, 6, Decision{ResetAfter: 10 * second}},
					{2 * second, 1, 0, Decision{RetryAfter: 8 * second, ResetAfter: 9 * second}},
					{3 * second, 50, 0, Decision{RetryAfter: 7 * second, ResetAfter: 8 * second}},
					{10 * second, maxGrant, 4, Decision{ResetAfter: 10 * second}},
					{30 * second, maxGrant, 10, Decision{ResetAfter: 10 * second}}, // above the rate
				} {
					pass(time.Until(start.Add(step.at)))
					granted, got, err := l.TakeUpTo(b.Context(), step.permits)
					require.NoError(b, err)
					assert.Equal(b, step.granted, granted, "at %v", step.at)
					step.want.Allowed, step.want.Limit = granted > 0, 10
					assert.Equal(b, step.want, got, "at %v", step.at)
					b.Free(l, step.want.Remaining)
				}
			})
		})
	}
}

// TestTakeUpTo_State_IsThatOfAGrant: the member and the value are those of TryAcquire with the
// granted permits, which expire together.
func TestTakeUpTo_State_IsThatOfAGrant(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 3)
		pass(second)
		granted, _, err := l.TakeUpTo(b.Context(), math.MaxUint32)
		require.NoError(b, err)
		require.EqualValues(b, 7, granted)
		assert.Zero(b, b.Stored("{limiter}:value"))
		assert.EqualValues(b, 10, b.sum())
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		for _, m := range members {
			assert.Len(b, m, 21)
		}
		assert.Len(b, members, 2)
		pass(9 * second)
		b.Free(l, 3)
		pass(second)
		b.Free(l, 10)
	})
}

func TestTakeUpTo_InvalidPermits_AreRefused(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		for _, permits := range []int64{math.MinInt64, -1, 0, maxGrant + 1, math.MaxInt64} {
			granted, decision, err := l.TakeUpTo(b.Context(), permits)
			assert.ErrorIs(b, err, ErrInvalidPermits, "%d permits", permits)
			assert.Zero(b, granted)
			assert.Zero(b, decision)
		}
		b.Free(l, 10)
	})
}

// TestTakeUpTo_SharedCall_IsServedInOrder: the callers behind the first one share a call.
func TestTakeUpTo_SharedCall_IsServedInOrder(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 20, Interval: 10 * second})
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
		assert.Zero(b, b.drift())
	})
}

// TestTakeUpTo_CallerLeaves_PartIsReleased: what was granted, not what was requested.
func TestTakeUpTo_CallerLeaves_PartIsReleased(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
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
		assert.Zero(b, b.drift())
	})
}

// TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit: a denial of 5 permits does not prove that none is
// free.
func TestTakeUpTo_CachedDenial_IsOnlyOfOnePermit(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second}, WithDenialCache(time.Hour))
		b.Take(l, 7)
		b.Full(l, 5)
		synctest.Wait()
		granted, _, err := l.TakeUpTo(b.Context(), 5)
		require.NoError(b, err)
		assert.EqualValues(b, 3, granted)
		for range 2 { // the second is denied from memory
			granted, decision, err := l.TakeUpTo(b.Context(), 5)
			require.NoError(b, err)
			assert.Zero(b, granted)
			assert.Equal(b, Decision{Limit: 10, RetryAfter: 10 * second, ResetAfter: 10 * second}, decision)
			synctest.Wait()
		}
		asked := b.Scripts.Load()
		for range 10 {
			_, _, err := l.TakeUpTo(b.Context(), 5)
			require.NoError(b, err)
		}
		assert.Equal(b, asked, b.Scripts.Load())
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
		l := b.limiter(Rate{Permits: 1000, Interval: 10 * second}, WithLease(500*time.Millisecond))
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
		require.NoError(b, l.wire.client.Flush(b.Context()))
		assert.Zero(b, b.drift())
	})
}

// TestTakeUpTo_Observer_ReportsWhatWasGranted: of a denial, what was requested.
func TestTakeUpTo_Observer_ReportsWhatWasGranted(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var got []DecisionInfo
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second}, WithObserver(&Observer{
			Decision: func(_ context.Context, d DecisionInfo) { got = append(got, d) },
		}))
		for range 2 {
			_, _, err := l.TakeUpTo(b.Context(), 15)
			require.NoError(b, err)
		}
		require.Len(b, got, 2)
		assert.True(b, got[0].Granted)
		assert.EqualValues(b, 10, got[0].Permits)
		assert.False(b, got[1].Granted)
		assert.EqualValues(b, 15, got[1].Permits)
	})
}
