package guard

import (
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Until returns a time during which at most d.Remaining permits are free, since the next permit
// returns later. It returns 0 if that time is unknown. The decision d is that of the policy p on a
// request of a cost. p is nil if the policy is unknown.
func Until(p limit.Policy, d rratelimiter.Decision, cost int64) time.Duration {
	described, _ := policy.Of(p)
	switch described.Refill {
	case policy.Together:
		return d.ResetAfter
	case policy.Evenly:
		if s, ok := shapeOf(p, 1); ok && s.holds == d.Limit {
			return s.until(d)
		}
		return 0
	case policy.OnCredit:
		return d.RetryAfter // Remaining bounds a request only while all wait
	case policy.Pausing:
		return d.RetryAfter
	case policy.ByAge:
		if d.Allowed && d.Remaining+cost == d.Limit {
			return d.ResetAfter // only these permits are taken
		}
	}
	if !d.Allowed && d.Remaining+1 == cost {
		return d.RetryAfter // when the next permit returns
	}
	return 0
}

// UntilLocal is Until for a decision on a share of the limit.
func (g *Guard) UntilLocal(p limit.Policy, d rratelimiter.Decision) time.Duration {
	s, _ := shapeOf(p, float64(g.mode))
	if s.owes && d.Remaining > 0 {
		return 0 // a request may take more than Remaining
	}
	return s.until(d)
}

// until returns the time after which a bucket has another whole permit.
func (s shape) until(d rratelimiter.Decision) time.Duration {
	behind := s.holds - 1 - d.Remaining // the permits that return after that one
	if behind < 0 || d.ResetAfter <= 0 {
		return 0
	}
	return max(0, d.ResetAfter-time.Duration(behind)*s.period)
}
