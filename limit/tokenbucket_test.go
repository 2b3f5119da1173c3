package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestRefund_Bucket_ReturnsWhatIsStillMissing: because of the grant.
func TestRefund_Bucket_ReturnsWhatIsStillMissing(t *testing.T) {
	type step struct {
		after  time.Duration
		take   int64
		refund int // of the step with this number, from 1 on
		want   int64
	}
	for name, steps := range map[string][]step{
		"the bucket was never full": {{take: 900, want: 100}, {take: 90, want: 10},
			{after: 50 * time.Millisecond, refund: 2, want: 150}},
		"refill is for older grants first": {{take: 40, want: 960}, {take: 60, want: 900},
			{after: 20 * time.Millisecond, refund: 2, want: 980}},
		"the grant is repaid in part": {{take: 60, want: 940}, {after: 20 * time.Millisecond, refund: 1, want: 1000}},
		"others took since": {{take: 60, want: 940}, {after: 20 * time.Millisecond, take: 500, want: 460},
			{refund: 1, want: 500}},
		"more was refilled since": {{take: 60, want: 940}, {after: 20 * time.Millisecond, take: 500, want: 460},
			{after: 100 * time.Millisecond, refund: 1, want: 560}},
		"it was full since": {{take: 60, want: 940}, {after: 100 * time.Millisecond, take: 500, want: 500},
			{refund: 1, want: 500}},
		"an older grant was refunded": {
			{take: 20, want: 980}, {take: 60, want: 920}, {take: 20, want: 900}, {after: 10 * time.Millisecond, refund: 2,
				want: 970},
			{after: 19 * time.Millisecond, take: 80, want: 909},
			{after: 10 * time.Millisecond, refund: 3, want: 920}, {refund: 5, want: 1000},
		},
	} {
		for _, p := range []Policy{TokenBucket{1000, 1000, time.Second}, LeakyBucket{1000, 1000, time.Second}} {
			f, l := clockedLimiter(t, p)
			receipts := make([]grant, len(steps)+1)
			for i, s := range steps {
				f.advance(s.after)
				if s.refund > 0 {
					f.refund(l, receipts[s.refund], steps[s.refund-1].take)
				} else {
					receipts[i+1] = f.take(l, s.take)
				}
				assert.Equal(t, s.want, redistest.Peek(t, l)[0].Remaining, "%s, %T: step %d", name, p, i+1)
			}
		}
	}
}

// TestTokenBucket_ProductAbove2To53_EveryPermitCounts: permits times microseconds are more than
// 2^53.
func TestTokenBucket_ProductAbove2To53_EveryPermitCounts(t *testing.T) {
	for _, test := range []struct{ permits, days int64 }{{66037722, 30}, {236846727, 30}, {534702879, 7},
		{3728210266, 1}} {
		_, l := clockedLimiter(t, TokenBucket{1e10, 1, time.Duration(test.days) * 24 * time.Hour})
		redistest.Result(t, l.Take, test.permits-5)
		for i := range int64(10) {
			require.InDelta(t, 1e10-test.permits+4-i, redistest.Result(t, l.Take, 1).Remaining, 1, "%+v", test)
		}
	}
}

// TestTokenBucket_FastRefill_FillsWithinAMicrosecond: a permit returns in less than the precision
// of a time.
func TestTokenBucket_FastRefill_FillsWithinAMicrosecond(t *testing.T) {
	for _, p := range []Policy{TokenBucket{1e9, 1e9, time.Second}, LeakyBucket{1e9, 1e9, time.Second},
		TokenBucket{1 << 53, 1 << 53, time.Millisecond}} {
		f, l := clockedLimiter(t, p)
		assert.Equal(t, time.Microsecond, redistest.Result(t, l.Take, 1).ResetAfter, "%+v", p)
		assert.Equal(t, fullFor+time.Millisecond, f.redis.TTL(l.protocol.keys[0]))
	}
}

// TestCharge_DebtBeyond2To53_CanBeReleased: such a debt counts as 2^53.
func TestCharge_DebtBeyond2To53_CanBeReleased(t *testing.T) {
	for _, p := range []Policy{TokenBucket{5, 1, time.Millisecond}, LeakyBucket{5, 1, time.Millisecond}} {
		_, l := clockedLimiter(t, p)
		for range redistest.Deep(20, 1100) {
			d := redistest.Result(t, l.Charge, 1<<53)
			require.Zero(t, d.Remaining)
			require.Positive(t, d.RetryAfter)
		}
		require.NoError(t, l.Release(t.Context(), 1<<53))
		assert.True(t, redistest.Result(t, l.Take, 5).Allowed, "%T", p)
	}
}

// TestTokenBucket_DebtIsReleasedAgainAndAgain_StateIsItsOwn: the sum of all refunds stays valid in
// the state.
func TestTokenBucket_DebtIsReleasedAgainAndAgain_StateIsItsOwn(t *testing.T) {
	_, l := clockedLimiter(t, TokenBucket{1, 1, maxInterval})
	for range 20 {
		assert.Equal(t, engine.Never, redistest.Result(t, l.Charge, maxPermits).RetryAfter)
		require.NoError(t, l.Release(t.Context(), maxPermits-1))
	}
}

// TestCharge_Debt_IsPaidByABucket: 200 calls at once have an estimate of 1 and cost 500 each, with a limit of 5,000
// per minute. A bucket grants nothing before the refill has paid for them; a window forgets them.
func TestCharge_Debt_IsPaidByABucket(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for name, test := range map[string]struct {
		policy  Policy
		minutes float64
	}{
		"window":  {FixedWindow{5000, minute, false}, 1},
		"aligned": {FixedWindow{5000, minute, true}, 1},
		"cells":   {SlidingWindow{5000, minute, 0}, 1.1},
		"log":     {SlidingLog{5000, minute}, 1},
		"bucket":  {TokenBucket{5000, 5000, minute}, 19},
		"leaky":   {LeakyBucket{5000, 5000, minute}, 19},
		"smooth":  {Smooth{Permits: 5000, Interval: minute, Burst: minute}, 19},
		"warm-up": {Smooth{Permits: 5000, Interval: minute, WarmUp: minute}, 20},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.client, "name", test.policy)
			if _, ok := test.policy.(Smooth); !ok {
				var all [200]Taken
				for i := range all {
					d, err := all[i].Take(t.Context(), 1, l)
					require.NoError(t, err)
					require.True(t, d.Allowed)
				}
				for i := range all {
					require.NoError(t, all[i].Settle(t.Context(), 500))
				}
			} else { // which lets no second call pass at once
				require.NoError(t, redistest.Err(l.Charge(t.Context(), 100_000)))
			}
			after := redistest.Result(t, l.Take, 1).RetryAfter
			assert.InDelta(t, test.minutes, after.Minutes(), 0.8)
			time.Sleep(after - 2*time.Millisecond)
			assert.False(t, redistest.Result(t, l.TryAcquire, 1))
			time.Sleep(2 * time.Millisecond)
			assert.True(t, redistest.Result(t, l.TryAcquire, 1))
		})
	}
}
