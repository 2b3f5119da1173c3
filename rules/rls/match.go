package rls

import (
	"math"
	"slices"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
)

// match returns the rule of a descriptor that has the descriptor's depth, noRule if there is none. It
// also returns the patterns of entries' values that share a limiter, "" for others.
func (d *domain) match(entries []*common.RateLimitDescriptor_Entry) (matched *rule, shared []string) {
	at := &d.rules
	matched = noRule
	for i, entry := range entries {
		r := at.find(entry.GetKey(), entry.GetValue())
		if r == nil {
			return noRule, nil
		}
		if r.ShareThreshold {
			if shared == nil {
				shared = make([]string, len(entries))
			}
			shared[i] = strings.TrimPrefix(r.id(), entry.GetKey()+"_")
		}
		matched, at = r, &r.below
	}
	return matched, shared
}

// nameOf returns the name of a descriptor's limiter in Redis. Different descriptors have different
// names, unless they share the limiter of a wildcard. With slot_by, the name has a hash tag.
func (d *domain) nameOf(desc *descriptor) string {
	parts := []string{d.name}
	prefix := namePrefix
	for i, entry := range desc.entries {
		value := entry.GetValue()
		if desc.shared != nil && desc.shared[i] != "" {
			value = desc.shared[i]
		}
		parts = append(parts, entry.GetKey(), value)
		if prefix == namePrefix && d.slotBy != "" && entry.GetKey() == d.slotBy {
			prefix = "{" + identity.Name(prefix, identity.Join(d.name, value)) + "}"
		}
	}
	return identity.Name(prefix, identity.Join(parts...))
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
		if own := received.GetLimit(); own != nil {
			one, ok := override(own)
			if !ok {
				return invalidf("descriptor %d brings a limit of unit %v, want SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR",
					i, own.GetUnit())
			}
			desc.limits = []*rateLimit{one}
			continue
		}
		desc.rule, desc.shared = d.match(desc.entries)
		desc.limits = desc.rule.limits
		for _, one := range desc.limits {
			replaced = append(replaced, one.replaces...)
		}
	}
	slices.Sort(replaced)
	replaced = slices.Compact(replaced) // a request may have many descriptors
	for i := range all {
		all[i].dropReplaced(replaced)
	}
	return nil
}

func (desc *descriptor) dropReplaced(replaced []string) {
	isReplaced := func(one *rateLimit) bool {
		return one.name != "" && !one.unlimited && slices.Contains(replaced, one.name)
	}
	if slices.ContainsFunc(desc.limits, isReplaced) {
		desc.limits = slices.DeleteFunc(slices.Clone(desc.limits), isReplaced)
	}
}

// descriptor is one descriptor of a request, with its rule and its result.
type descriptor struct {
	entries []*common.RateLimitDescriptor_Entry
	rule    *rule // or noRule
	limits  []*rateLimit
	shared  []string // the patterns of entries' values that share a limiter
	action  action
	hits    uint64

	name   string      // of its limiter; "" without one
	member gate.Member // its limiter, if Redis decides it
	joint  bool        // it takes its permits with others of the request, or none
	cost   uint64      // the hits of this descriptor and of those equal to it
	equal  *descriptor // the next descriptor of the same limiter, which this one decides too
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
	result.DurationUntilReset = &durationpb.Duration{Seconds: gate.RoundUp(left, time.Second)}
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
	shown := outage.MostRestrictive(each)
	desc.setStatus(desc.limits[shown], each[shown])
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

// The bounds of a request. A decoded request takes up to a hundred times its encoded size.
const (
	maxRequest     = 64 << 10 // bytes
	maxDescriptors = 256
	maxEntries     = 64  // of a descriptor
	maxLimits      = 256 // of one request, in Redis
	maxHits        = 1 << 53
)

// checkSize returns an error for a request with too many parts.
func checkSize(request *ratelimit.RateLimitRequest) error {
	if n := len(request.GetDescriptors()); n > maxDescriptors {
		return invalidf("the request has %d descriptors, want at most %d", n, maxDescriptors)
	}
	for i, d := range request.GetDescriptors() {
		if n := len(d.GetEntries()); n > maxEntries {
			return invalidf("descriptor %d has %d entries, want at most %d", i, n, maxEntries)
		}
	}
	return nil
}

// invalidf returns the error of an invalid request.
func invalidf(format string, values ...any) error {
	return status.Errorf(codes.InvalidArgument, "rls: "+format, values...)
}
