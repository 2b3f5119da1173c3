package rls

import (
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

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

func (desc *descriptor) unlimited() bool { return len(desc.limits) > 0 && desc.limits[0].unlimited }
