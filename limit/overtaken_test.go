package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTake_OvertakenCall_OwesNothing: calls overtake each other on their way to Redis. A call that
// is some microseconds older than the state counts as one at the state's time, and owes nothing.
func TestTake_OvertakenCall_OwesNothing(t *testing.T) {
	for _, p := range []Policy{
		FixedWindow{5, time.Second, false}, FixedWindow{5, time.Second, true}, Calendar{5, Day, nil},
		SlidingLog{5, time.Second},
		SlidingWindow{5, time.Second, 0}, TokenBucket{5, 5, time.Second}, LeakyBucket{5, 5, time.Second},
		Smooth{Permits: 1, Interval: time.Second, Burst: 5 * time.Second},
	} {
		t.Run(fmt.Sprintf("%T", p), func(t *testing.T) {
			b := newBench(t)
			b.back = true
			l := New(b.client, "name", p)
			b.pass(3 * time.Millisecond)
			for taken := range int64(5) {
				d, err := l.Take(t.Context(), 1)
				require.NoError(t, err)
				assert.True(t, d.Allowed, "%+v", d)
				assert.Equal(t, 4-taken, d.Remaining)
				b.pass(-5 * time.Microsecond)
			}
		})
	}
}
