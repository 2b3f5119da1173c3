package rls

import (
	"slices"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/guard"
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

const namePrefix = "rls"

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
			prefix = "{" + guard.Name(prefix, guard.Join(d.name, value)) + "}"
		}
	}
	return guard.Name(prefix, guard.Join(parts...))
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
		all[i].drop(replaced)
	}
	return nil
}

func (desc *descriptor) drop(replaced []string) {
	isReplaced := func(one *rateLimit) bool {
		return one.name != "" && !one.unlimited && slices.Contains(replaced, one.name)
	}
	if slices.ContainsFunc(desc.limits, isReplaced) {
		desc.limits = slices.DeleteFunc(slices.Clone(desc.limits), isReplaced)
	}
}
