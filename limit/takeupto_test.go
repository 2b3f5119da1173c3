package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTakeUpTo_SeveralPolicies_GrantTheLeast: each takes the same number, a joined limiter of
// Redisson's layout too.
func TestTakeUpTo_SeveralPolicies_GrantTheLeast(t *testing.T) {
	b := newBench(t)
	quota := b.client.Limiter("quota")
	require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
	must(t, quota.TryAcquire, 1)
	l := Join(New(b.client, "name", FixedWindow{10, time.Hour, false}, TokenBucket{7, 1, time.Hour}), quota)
	for _, want := range []int64{4, 0} {
		granted, d := mustTakeUpTo(t, l, engine.MaxPermits)
		assert.Equal(t, want, granted)
		assert.EqualValues(t, 5, d.Limit)
		assert.Equal(t, want == 0, d.RetryAfter > 0)
		for i, d := range mustPeek(t, l) {
			assert.Equal(t, []int64{6, 3, 0}[i], d.Remaining)
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
