package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestSlidingWindow_PermitsChange_GrantsCount: more or fewer permits take effect at once, and the
// grants count.
func TestSlidingWindow_PermitsChange_GrantsCount(t *testing.T) {
	for _, policies := range [][3]Policy{
		{SlidingWindow{10, time.Second, 10}, SlidingWindow{5, time.Second, 0}, SlidingWindow{20, time.Second, 10}},
		{SlidingLog{10, time.Second}, SlidingLog{5, time.Second}, SlidingLog{20, time.Second}},
	} {
		f := newClocked(t)
		f.set(f.now - f.now%1e6)
		redistest.Result(t, New(f.client, "name", policies[0]).Take, 7)
		fewer := redistest.Result(t, New(f.client, "name", policies[1]).Take, 1)
		assert.False(t, fewer.Allowed)
		assert.Zero(t, fewer.Remaining)
		assert.EqualValues(t, 5, fewer.Limit)
		assert.True(t, redistest.Result(t, New(f.client, "name", policies[2]).Take, 13).Allowed)
	}
}

// TestRelease_ExpiredByThisClock_ChangesNothing: another clock may be behind this one.
func TestRelease_ExpiredByThisClock_ChangesNothing(t *testing.T) {
	for _, policy := range []Policy{
		SlidingWindow{10, time.Second, 10}, SlidingLog{10, time.Second}, Calendar{10, Day, nil},
		FixedWindow{10, time.Second, false}, FixedWindow{10, time.Second, true},
		TokenBucket{10, 10, time.Second}, LeakyBucket{10, 10, time.Second},
	} {
		f := newClocked(t)
		f.back = true
		l := New(f.client, "name", policy)
		receipts := f.take(l, 3)
		before := f.redis.Dump()
		f.advance(24 * time.Hour)
		f.refund(l, receipts, 3)
		require.NoError(t, l.Release(t.Context(), 3))
		assert.Equal(t, before, f.redis.Dump(), "%T", policy)
	}
}
