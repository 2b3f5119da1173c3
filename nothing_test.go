package rratelimiter

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAGrantOfNothingGivesNothingBack is Issue 9, point 16: found by the sequences. Redisson makes a grant of no permits for a call that
// asks for 0; where it was the oldest, a denied caller was told to come back when it leaves.
func TestAGrantOfNothingGivesNothingBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		nothing := string(rune(16)) + strings.Repeat("r", 16) + strings.Repeat("\x00", 4)
		_, err := b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), nothing)
		require.NoError(b, err)
		require.NoError(b, b.Redis.Set("{limiter}:value", strconv.Itoa(10)))
		pass(3 * second)
		b.Take(l, 10)
		d, err := l.Take(b.Context(), 1)
		require.NoError(b, err)
		assert.Equal(b, Decision{Limit: 10, RetryAfter: 10 * second, ResetAfter: 10 * second}, d)
	})
}
