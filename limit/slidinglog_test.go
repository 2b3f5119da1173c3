package limit

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TestReturnsForecast_Earliest_AddsIntervals: a request for more permits than the limit waits an
// interval more for each time that all return.
func TestReturnsForecast_Earliest_AddsIntervals(t *testing.T) {
	o, ok := returnsOf(10, time.Second, []int64{7, 900_000, 100_000, 3, 900_000, 4})
	require.True(t, ok)
	for permits, want := range map[int64]time.Duration{
		3: 0, 4: 100 * ms, 6: 100 * ms, 7: 900 * ms, 10: 900 * ms, 13: time.Second, 14: 1100 * ms, 20: 1900 * ms,
		1004:          100100 * ms,
		math.MaxInt64: engine.Never,
	} {
		assert.Equal(t, want, o.earliest(permits), permits)
	}
	for _, reply := range [][]int64{{}, {1}, {1, 2, 3}} {
		_, ok = returnsOf(10, time.Second, reply)
		assert.False(t, ok)
	}
}
