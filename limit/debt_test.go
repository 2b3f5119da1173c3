package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

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
