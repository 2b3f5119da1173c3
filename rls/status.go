package rls

import (
	"math"
	"slices"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"google.golang.org/protobuf/types/known/durationpb"
)

// setStatus sets a descriptor's status by the decision of a limit.
func (desc *descriptor) setStatus(one *rateLimit, decision rratelimiter.Decision) {
	result := &ratelimit.RateLimitResponse_DescriptorStatus{
		Code: ratelimit.RateLimitResponse_OK, CurrentLimit: one.current,
	}
	left := decision.ResetAfter
	if decision.Allowed {
		result.LimitRemaining = uint32(min(max(decision.Remaining, 0), math.MaxUint32))
	} else {
		result.Code, left = ratelimit.RateLimitResponse_OVER_LIMIT, decision.RetryAfter
	}
	if left <= 0 {
		left = one.reset(time.Now())
	}
	result.DurationUntilReset = &durationpb.Duration{Seconds: guard.RoundUp(left, time.Second)}
	desc.status, desc.over = result, !decision.Allowed
}

// conclude sets a descriptor's status by the decisions of its policies for some permits. notTaken is
// the part of them that was not taken for this descriptor.
func (desc *descriptor) conclude(each []rratelimiter.Decision, permits, notTaken uint64) {
	each = slices.Clone(each) // equal descriptors have the same
	for i := range each {
		if own := &each[i]; !desc.limits[i].onCredit {
			if desc.action == peek && permits > 1 {
				own.Allowed = own.Remaining >= int64(permits)
			}
			own.Remaining = min(own.Remaining+int64(notTaken), max(own.Remaining, own.Limit))
		}
	}
	shown := guard.Shown(each)
	desc.setStatus(desc.limits[shown], each[shown])
}

// unlimitedStatus is the status of an unlimited descriptor.
func unlimitedStatus() *ratelimit.RateLimitResponse_DescriptorStatus {
	return &ratelimit.RateLimitResponse_DescriptorStatus{
		Code: ratelimit.RateLimitResponse_OK, LimitRemaining: math.MaxUint32,
	}
}

// decideLocally sets the status of a descriptor that needs no call to Redis, and of those equal to
// it. It reports whether that is so.
func (desc *descriptor) decideLocally() bool {
	if desc.action == release {
		return slices.ContainsFunc(desc.limits, func(one *rateLimit) bool { return one.policy == nil })
	}
	for i, one := range desc.limits {
		if one.policy == nil || desc.cost > one.most && !desc.rule.Overdraw {
			for d := desc; d != nil; d = d.equal {
				d.setStatus(d.limits[i], rratelimiter.Decision{})
			}
			return true
		}
	}
	return false
}
