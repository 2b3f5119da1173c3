package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// mixedRates are buckets of one key with two rates.
var mixedRates = map[string]struct{ slow, fast Policy }{
	"bucket": {TokenBucket{20, 1, time.Second}, TokenBucket{20, 10, time.Second}},
	"leaky":  {LeakyBucket{20, 1, time.Second}, LeakyBucket{20, 10, time.Second}},
}

// TestRefund_RatesDiffer_PermitsOfOthersStay: a grant under a lower rate, then all that a higher rate has refilled
// since, then the refund of the first. It returns what the second has left of it, under either rate.
func TestRefund_RatesDiffer_PermitsOfOthersStay(t *testing.T) {
	for name, test := range mixedRates {
		for _, byFast := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newClocked(t)
				slow, fast := New(f.client, "name", test.slow), New(f.client, "name", test.fast)
				of := f.take(slow, 20)
				f.advance(time.Second)
				other := f.take(fast, 10)
				l := slow
				if byFast {
					l = fast
				}
				assert.EqualValues(t, 10, f.refund(l, of, 20).Remaining)
				assert.EqualValues(t, 20, f.refund(l, other, 10).Remaining)
				assert.Empty(t, f.redis.Keys())
			})
		}
	}
}

// TestRefund_RateLowered_ReturnsTheGrant: only what was refilled since is not returned, by the rate of that time.
func TestRefund_RateLowered_ReturnsTheGrant(t *testing.T) {
	for name, test := range mixedRates {
		t.Run(name, func(t *testing.T) {
			f := newClocked(t)
			slow, fast := New(f.client, "name", test.slow), New(f.client, "name", test.fast)
			f.take(fast, 10)
			of := f.take(slow, 10)
			f.advance(5 * time.Second)
			f.take(slow, 4)
			text, err := f.redis.Get("{name}:bucket:1000")
			if name == "leaky" {
				text, err = f.redis.Get("{name}:leaky:1000")
			}
			require.NoError(t, err)
			state, ok := TokenBucket{20, 1, time.Second}.read(policy.Content{Text: text, TTL: 20_000,
				Now: time.UnixMicro(f.now)})
			assert.True(t, ok, text)
			assert.EqualValues(t, 19, state.Taken, text)
			assert.EqualValues(t, 11, f.refund(slow, of, 10).Remaining, "5 are refilled, and 4 taken")
		})
	}
}
