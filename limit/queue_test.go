package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			[]time.Duration{0, 0, 1100 * time.Millisecond, 1100 * time.Millisecond, 2200 * time.Millisecond}, 7},
		"SlidingLog": {[]Policy{SlidingLog{2, time.Second}},
			[]time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}, 6},
		"two at once": {
			[]Policy{FixedWindow{2, time.Second, false}, TokenBucket{3, 1, 2 * time.Second}},
			[]time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second}, 8,
		},
		"several buckets": {
			[]Policy{TokenBucket{1, 10, time.Second}, Smooth{Permits: 5, Interval: time.Second, Burst: time.Millisecond},
				LeakyBucket{3, 10, time.Second}},
			[]time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond, 600 * time.Millisecond}, 8,
		},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.exact(), "name", test.policies...)
			start := time.Now()
			took, errs := redistest.Crowd(len(test.want), func(int) (time.Duration, error) {
				err := l.Acquire(t.Context(), 1)
				return time.Since(start), err
			})
			require.Equal(t, make([]error, len(took)), errs)
			for i := range took {
				// The fake clock begins at a whole second, and a wait ends in whole
				// milliseconds.
				assert.InDelta(t, test.want[i], took[i], float64(2*time.Millisecond), "caller %d of %v", i, took)
			}
			assert.LessOrEqual(t, f.Scripts.Load(), test.calls)
		})
	}
}
