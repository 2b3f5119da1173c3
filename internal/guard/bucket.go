package guard

import (
	"math"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// shape is a share of a policy as a token bucket: it holds so many permits, full at first, and gets one more in each period. All
// numbers are whole, so nothing is granted a nanosecond early.
type shape struct {
	limit  int64         // what a Decision shows
	holds  int64         // 0: nothing is ever granted
	period time.Duration // at least 1
	owes   bool          // more than it holds can be had of a full bucket, as of limit.Smooth
}

// shapeOf makes a share of a policy. It returns false if the policy is unknown.
func shapeOf(p limit.Policy, share float64) (shape, bool) {
	d, ok := policy.Of(p)
	if !ok {
		return shape{}, false
	}
	local := d.Local
	if local.Strict {
		return windowShape(local.Permits, local.Interval, share), true
	}
	s := bucketShape(local.Permits, float64(local.Returns)*share, local.Interval, share)
	if d.Refill == policy.OnCredit {
		s.limit, s.holds, s.owes = part(d.Quota, share), max(1, s.holds), true
	}
	return s, true
}

// mostPermits is the most permits that a policy can have.
const mostPermits = 1 << 53

// part is a share of permits, rounded down. What only the decimal digits of a share have cut off counts: 0.29 of 100 is 29.
func part(permits int64, share float64) int64 {
	return min(permits, int64(float64(permits)*share*(1+1e-12)))
}

// windowShape grants no more than the share in any interval: what it holds and what it gets in one come to no more.
func windowShape(permits int64, interval time.Duration, share float64) shape {
	most := part(permits, share)
	s := shape{limit: most, holds: (most + 1) / 2, period: 1}
	if interval <= 0 {
		s.holds = 0 // of no policy that any limiter has
	} else if most > 0 {
		s.period = perPermit(interval, float64(most-s.holds+1))
	}
	return s.bounded()
}

// bucketShape is a bucket of the share's size, and fills as fast as the share says.
func bucketShape(capacity int64, refill float64, interval time.Duration, share float64) shape {
	holds := part(capacity, share)
	if interval <= 0 || refill <= 0 {
		return shape{period: 1} // of no policy that any limiter has
	}
	return shape{limit: holds, holds: holds, period: perPermit(interval, refill)}.bounded()
}

// perPermit is how long one of so many permits in an interval takes, rounded up.
func perPermit(interval time.Duration, permits float64) time.Duration {
	return max(1, time.Duration(min(math.Ceil(float64(interval)/permits), longest)))
}

// longest is as long as anything lasts: twice of it is still a time.Duration.
const longest = 1 << 61

// bounded holds no more than what comes back in the longest time.
func (s shape) bounded() shape {
	s.holds = min(s.holds, int64(longest/s.period))
	return s
}

// The state of a bucket is the moment at which it is full, by a clock.

// decide says what a bucket that is full at a moment answers.
func (s shape) decide(full, now, permits int64) rratelimiter.Decision {
	behind := time.Duration(max(0, full-now)) // how long until it is full
	room := time.Duration(s.holds)*s.period - behind
	d := rratelimiter.Decision{Limit: s.limit, Remaining: int64(max(0, room) / s.period), ResetAfter: behind}
	needs := permits
	if s.owes {
		needs = min(permits, s.holds)
	}
	if short := time.Duration(needs)*s.period - room; short > 0 {
		d.RetryAfter = short
		return d
	}
	d.Allowed = true
	return d
}

// take takes permits, or gives them back where they are below 0, and says when the bucket is full then.
func (s shape) take(full, now, permits int64) int64 {
	most := longest / int64(s.period)
	return min(max(full, now)+min(max(permits, -most), most)*int64(s.period), now+longest)
}
