package gate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Names are unique.
func TestDescription_EachPolicy_HasNameQuotaAndWindow(t *testing.T) {
	type term struct {
		name   string
		quota  int64
		window time.Duration
		held   bool
	}
	const second, day = time.Second, 24 * time.Hour
	cases := []struct {
		policy limit.Policy
		want   term
	}{
		{limit.FixedWindow{Permits: 3, Interval: time.Second}, term{"second", 3, time.Second, false}},
		{limit.Named("mine", limit.SlidingWindow{Permits: 3, Interval: time.Minute}),
			term{"mine", 3, time.Minute, false}},
		{limit.SlidingLog{Permits: 3, Interval: time.Hour}, term{"hour", 3, time.Hour, false}},
		{limit.FixedWindow{Permits: 1, Interval: 90 * time.Second}, term{"1m30s", 1, 90 * time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: 2 * time.Hour}, term{"2h", 1, 2 * time.Hour, false}},
		{limit.FixedWindow{Permits: 1, Interval: 10 * time.Minute}, term{"10m", 1, 10 * time.Minute, false}},
		{limit.FixedWindow{Permits: 1, Interval: time.Second / 4}, term{"250ms", 1, time.Second / 4, false}},
		{limit.TokenBucket{Capacity: 20, Refill: 5, Interval: time.Second}, term{"bucket", 20, 4 * time.Second, false}},
		{limit.TokenBucket{Capacity: 1 << 53, Refill: 1, Interval: time.Hour},
			term{"bucket-2", 1 << 53, 1 << 61, false}},
		{limit.LeakyBucket{Capacity: 10, Leak: 20, Interval: time.Second}, term{"leaky", 10, time.Second / 2, false}},
		{limit.Smooth{Permits: 5, Interval: time.Second}, term{"smooth", 5, time.Second, false}},
		{limit.Named("second-2", limit.SlidingLog{Permits: 2, Interval: time.Second}),
			term{"second-2", 2, time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: time.Second, Aligned: true}, term{"second-3", 1, time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: day}, term{"day", 1, day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Day}, term{"day-2", 3, day, false}},
		{limit.FixedWindow{Permits: 1, Interval: 7 * day}, term{"week", 1, 7 * day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Week}, term{"week-2", 3, 7 * day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Month}, term{"month", 3, 0, false}},
		{limit.InFlight{Permits: 3, Lease: time.Second}, term{"in-flight", 3, 0, true}},
	}
	var policies []limit.Policy
	for _, c := range cases {
		policies = append(policies, c.policy)
	}
	d := Describe(policies...)
	for i, c := range cases {
		of := d.Policy(i)
		assert.Equal(t, c.want, term{of.Shown, of.Quota, of.Window, of.Refill == policy.Held})
	}
	assert.Equal(t, &policy.Description{Shown: "default-20"}, d.Policy(19))
	assert.Equal(t, &policy.Description{Shown: "default"}, Describe().Policy(0))
	assert.Equal(t, &policy.Description{Shown: "default"}, Describe(nil).Policy(0))
}
