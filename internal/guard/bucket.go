package guard

import (
	"math"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// shape is a share of a policy as a token bucket. The bucket starts full and gets one permit in
// each period. All numbers are integers, so no permit is granted a nanosecond early.
type shape struct {
	limit  int64         // Decision.Limit
	holds  int64         // the capacity; 0 grants nothing
	period time.Duration // at least 1
	owes   bool          // a full bucket grants more than it holds, as limit.Smooth does
}

// shapeOf returns the shape of a share of a valid policy. It returns false if the policy is unknown.
func shapeOf(p limit.Policy, share float64) (shape, bool) {
	d, ok := policy.Of(p)
	if !ok {
		return shape{}, false
	}
	if d.Local.Strict {
		return windowShape(d.Local, share), true
	}
	s := bucketShape(d.Local, share)
	if d.Refill == policy.Pausing {
		s.limit = 0
	}
	if d.Refill == policy.OnCredit {
		s.limit, s.holds, s.owes = part(d.Quota, share), max(1, s.holds), true
	}
	return s, true
}

const maxPermits = 1 << 53

// part returns a share of permits, rounded down, but tolerates the rounding error of a decimal
// share: 0.29 of 100 is 29.
func part(permits int64, share float64) int64 {
	return min(permits, int64(float64(permits)*share*(1+1e-12)))
}

// windowShape grants at most the share in any interval: the capacity, and the permits that return
// in one interval, add up to the share.
func windowShape(local policy.Local, share float64) shape {
	most := part(local.Permits, share)
	holds := (most + 1) / 2
	return shape{limit: most, holds: holds, period: perPermit(local.Interval, float64(most-holds+1))}.bounded()
}

// bucketShape has the share's capacity and refill rate.
func bucketShape(local policy.Local, share float64) shape {
	holds := part(local.Permits, share)
	return shape{limit: holds, holds: holds, period: perPermit(local.Interval, float64(local.Returns)*share)}.bounded()
}

// perPermit returns the time per permit, rounded up.
func perPermit(interval time.Duration, permits float64) time.Duration {
	return max(1, time.Duration(min(math.Ceil(float64(interval)/permits), longestPeriod)))
}

// longestPeriod is the longest time of a bucket. Twice that is still a time.Duration.
const longestPeriod = 1 << 61

// bounded limits the capacity to the permits that return in the longest time.
func (s shape) bounded() shape {
	s.holds = min(s.holds, int64(longestPeriod/s.period))
	return s
}

// The state of a bucket is the time at which it is full.

// decide returns the decision of a bucket that is full at the given time.
func (s shape) decide(full, now, permits int64) rratelimiter.Decision {
	behind := time.Duration(max(0, full-now)) // the time until it is full
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

// time returns the time in which a bucket gets permits, at most the longest one.
func (s shape) time(permits int64) int64 {
	return min(permits, longestPeriod/int64(s.period)) * int64(s.period)
}

// take takes permits, free or not. It returns the new time at which the bucket is full.
func (s shape) take(full, now, permits int64) int64 {
	return min(max(full, now)+s.time(permits), now+longestPeriod)
}
