package rls

import (
	"math"
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// descriptor is one descriptor of a request, with its rule and its result.
type descriptor struct {
	entries []*common.RateLimitDescriptor_Entry
	rule    *rule // or noRule
	limits  []*rateLimit
	hashes  []string // of the entries' values that must not surface
	shared  []string // the patterns of entries' values that share a limiter
	action  action
	hits    uint64

	name   string       // of its limiter; "" without one
	member guard.Member // its limiter, if Redis decides it
	joint  bool         // it takes its permits with others of the request, or none
	cost   uint64       // the hits of this descriptor and of those equal to it
	equal  *descriptor  // the next descriptor of the same limiter, which this one decides too
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
func (desc *descriptor) enforced(quotaMode bool) bool {
	return desc.action != release && !desc.rule.ShadowMode && !desc.rule.QuotaMode && !quotaMode
}

// isEqual reports whether one decision for the sum of the hits can decide two descriptors.
func (desc *descriptor) isEqual(other *descriptor) bool {
	samePolicy := func(a, b *rateLimit) bool { return a.policy == b.policy }
	return desc.joint && other.joint && desc.name == other.name && desc.action == other.action &&
		slices.EqualFunc(desc.limits, other.limits, samePolicy)
}

// add adds a descriptor that is equal.
func (desc *descriptor) add(other *descriptor) {
	desc.cost += other.hits
	last := desc
	for last.equal != nil {
		last = last.equal
	}
	last.equal = other
}

// resolve finds the limits of each descriptor.
func (d *domain) resolve(request *ratelimit.RateLimitRequest, all []descriptor) error {
	var replaced []string
	for i, received := range request.GetDescriptors() {
		desc := &all[i]
		desc.entries, desc.rule = received.GetEntries(), noRule
		desc.hits = uint64(max(1, request.GetHitsAddend()))
		if own := received.GetHitsAddend(); own != nil {
			desc.hits = own.GetValue()
		}
		switch {
		case desc.hits > maxHits:
			return invalidf("descriptor %d has hits_addend %d, want at most 2^53", i, desc.hits)
		case desc.hits == 0:
			desc.action = peek
		case received.GetIsNegativeHits():
			desc.action = release
		}
		matched, hashes, shared := d.match(desc.entries)
		desc.hashes = hashes
		if own := received.GetLimit(); own != nil {
			one, ok := override(own)
			if !ok {
				return invalidf("descriptor %d brings a limit of unit %v, want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", i,
					own.GetUnit())
			}
			desc.limits = []*rateLimit{one}
			continue
		}
		desc.rule, desc.shared, desc.limits = matched, shared, matched.limits
		for _, one := range desc.limits {
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
func (desc *descriptor) drop(replaced []string) {
	isReplaced := func(one *rateLimit) bool {
		return one.name != "" && !one.unlimited && slices.Contains(replaced, one.name)
	}
	if slices.ContainsFunc(desc.limits, isReplaced) {
		desc.limits = slices.DeleteFunc(slices.Clone(desc.limits), isReplaced)
	}
}

// unlimitedStatus is the status of an unlimited descriptor.
func unlimitedStatus() *ratelimit.RateLimitResponse_DescriptorStatus {
	return &ratelimit.RateLimitResponse_DescriptorStatus{
		Code: ratelimit.RateLimitResponse_OK, LimitRemaining: math.MaxUint32,
	}
}

func (desc *descriptor) unlimited() bool { return len(desc.limits) > 0 && desc.limits[0].unlimited }

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
