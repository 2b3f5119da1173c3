package rls

import (
	"math"
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter"
)

// evaluation is a descriptor of a request, with its result.
type evaluation struct {
	entries []*common.RateLimitDescriptor_Entry
	rule    *rule // or noRule
	limits  []*rateLimit
	stored  []string // replacements of entries' values in the limiter's name
	action  action
	hits    uint64

	name   string // of its limiter; "" without one
	status *ratelimit.RateLimitResponse_DescriptorStatus
	over   bool // even if the status hides it, in shadow mode
}

// action is what a descriptor does with its limits.
type action int

const (
	take action = iota
	peek        // takes no permits
	release
)

// enforced reports whether a descriptor can deny the request.
func (a *evaluation) enforced(quotaMode bool) bool {
	return a.action != release && !a.rule.shadow && !a.rule.quota && !quotaMode
}

// resolve finds the limits of each descriptor.
func (d *domain) resolve(request *ratelimit.RateLimitRequest, all []evaluation) error {
	var replaced []string
	for i, descriptor := range request.GetDescriptors() {
		a := &all[i]
		a.entries, a.rule = descriptor.GetEntries(), noRule
		a.hits = uint64(max(1, request.GetHitsAddend()))
		if own := descriptor.GetHitsAddend(); own != nil {
			a.hits = own.GetValue()
		}
		switch {
		case a.hits > mostHits:
			return invalidf("descriptor %d has hits_addend %d, want at most 2^53", i, a.hits)
		case a.hits == 0:
			a.action = peek
		case descriptor.GetIsNegativeHits():
			a.action = release
		}
		if own := descriptor.GetLimit(); own != nil {
			one, ok := override(own)
			if !ok {
				return invalidf("descriptor %d brings a limit of unit %v, want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", i,
					own.GetUnit())
			}
			a.limits = []*rateLimit{one}
			continue
		}
		a.rule, a.stored = d.match(a.entries)
		a.limits = a.rule.limits
		for _, one := range a.limits {
			replaced = append(replaced, one.replaces...)
		}
	}
	slices.Sort(replaced)
	replaced = slices.Compact(replaced) // a request may have many descriptors
	for i := range all {
		all[i].drop(replaced)
	}
	return nil
}

// drop removes limits that another descriptor's limit replaces.
func (a *evaluation) drop(replaced []string) {
	isReplaced := func(one *rateLimit) bool {
		return one.name != "" && !one.unlimited && slices.Contains(replaced, one.name)
	}
	if slices.ContainsFunc(a.limits, isReplaced) {
		a.limits = slices.DeleteFunc(slices.Clone(a.limits), isReplaced)
	}
}

func (a *evaluation) unlimited() bool { return len(a.limits) > 0 && a.limits[0].unlimited }

// decided sets the status of a descriptor that needs no call to Redis.
func (a *evaluation) decided() bool {
	if a.unlimited() {
		a.status = &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK,
			LimitRemaining: math.MaxUint32}
		return true
	}
	if a.action == release {
		return slices.ContainsFunc(a.limits, func(one *rateLimit) bool { return one.policy == nil })
	}
	for _, one := range a.limits {
		if one.policy == nil || a.hits > one.most && !a.rule.overdraw {
			a.setStatus(one, rratelimiter.Decision{})
			return true
		}
	}
	return false
}
