package gate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Names are unique.
func TestTerm_EachPolicy_HasNameQuotaAndWindow(t *testing.T) {
	const second, day = time.Second, 24 * time.Hour
	cases := []struct {
		policy limit.Policy
		want   Term
	}{
		{limit.FixedWindow{Permits: 3, Interval: time.Second}, Term{"second", 3, time.Second, false}},
		{limit.Named("mine", limit.SlidingWindow{Permits: 3, Interval: time.Minute}),
			Term{"mine", 3, time.Minute, false}},
		{limit.SlidingLog{Permits: 3, Interval: time.Hour}, Term{"hour", 3, time.Hour, false}},
		{limit.FixedWindow{Permits: 1, Interval: 90 * time.Second}, Term{"1m30s", 1, 90 * time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: 2 * time.Hour}, Term{"2h", 1, 2 * time.Hour, false}},
		{limit.FixedWindow{Permits: 1, Interval: 10 * time.Minute}, Term{"10m", 1, 10 * time.Minute, false}},
		{limit.FixedWindow{Permits: 1, Interval: time.Second / 4}, Term{"250ms", 1, time.Second / 4, false}},
		{limit.TokenBucket{Capacity: 20, Refill: 5, Interval: time.Second}, Term{"bucket", 20, 4 * time.Second, false}},
		{limit.TokenBucket{Capacity: 1 << 53, Refill: 1, Interval: time.Hour},
			Term{"bucket-2", 1 << 53, 1 << 61, false}},
		{limit.LeakyBucket{Capacity: 10, Leak: 20, Interval: time.Second}, Term{"leaky", 10, time.Second / 2, false}},
		{limit.Smooth{Permits: 5, Interval: time.Second}, Term{"smooth", 5, time.Second, false}},
		{limit.Named("second-2", limit.SlidingLog{Permits: 2, Interval: time.Second}),
			Term{"second-2", 2, time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: time.Second, Aligned: true}, Term{"second-3", 1, time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: day}, Term{"day", 1, day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Day}, Term{"day-2", 3, day, false}},
		{limit.FixedWindow{Permits: 1, Interval: 7 * day}, Term{"week", 1, 7 * day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Week}, Term{"week-2", 3, 7 * day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Month}, Term{"month", 3, 0, false}},
		{limit.InFlight{Permits: 3, Lease: time.Second}, Term{"in-flight", 3, 0, true}},
	}
	var policies []limit.Policy
	for _, c := range cases {
		policies = append(policies, c.policy)
	}
	d := Describe(policies...)
	for i, c := range cases {
		assert.Equal(t, c.want, d.Term(i))
	}
	assert.Equal(t, Term{Name: "default-20"}, d.Term(19))
	assert.Equal(t, Term{Name: "default"}, Describe().Term(0))
	assert.Equal(t, Term{Name: "default"}, Describe(nil).Term(0))
}
