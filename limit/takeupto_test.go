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
	f := newClocked(t)
	quota := f.client.Limiter("quota")
	require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
	redistest.Result(t, quota.TryAcquire, 1)
	l := Join(New(f.client, "name", FixedWindow{10, time.Hour, false}, TokenBucket{7, 1, time.Hour}), quota)
	for _, want := range []int64{4, 0} {
		granted, d := takeUpTo(t, l, engine.MaxPermits)
		assert.Equal(t, want, granted)
		assert.EqualValues(t, 5, d.Limit)
		assert.Equal(t, want == 0, d.RetryAfter > 0)
		assert.Equal(t, []int64{6, 3, 0}, remainingOf(t, l))
	}
	forecast := f.ask(l, engine.Ask{Permits: 1, Detail: true}).Forecast
	assert.EqualValues(t, 5, forecast.Limit(), "a queue denies larger requests")
}

// TestTakeUpTo_CallersShareACall_GrantAllThatIsFree: one of them gets a part of what it wants.
func TestTakeUpTo_CallersShareACall_GrantAllThatIsFree(t *testing.T) {
	f := newClocked(t)
	var asks []engine.Ask
	for range 5 {
		upTo := engine.Ask{Permits: 1, UpTo: 7, Detail: true}
		asks = append(asks, upTo, upTo, upTo, engine.Ask{Permits: 2})
	}
	var granted []int64
	for _, r := range f.ask(New(f.client, "name", FixedWindow{50, time.Hour, false}), asks...).Requests {
		granted = append(granted, r.Granted)
	}
	assert.Equal(t, []int64{7, 7, 7, 2, 7, 7, 7, 2, 4}, granted[:9])
	assert.Equal(t, make([]int64, 11), granted[9:])
}
