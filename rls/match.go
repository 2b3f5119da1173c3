package rls

import (
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/door"
)

// match gives the rule of a descriptor whose depth is the rule's, nil where there is none. Where wildcards share what they grant,
// shared has an entry's pattern at its place, and "" for the others.
func (d *domain) match(entries []*common.RateLimitDescriptor_Entry) (found *rule, shared []string) {
	at := &d.rules
	for i, entry := range entries {
		r := at.find(entry.GetKey(), entry.GetValue())
		if r == nil {
			return nil, nil
		}
		if r.shared {
			if shared == nil {
				shared = make([]string, len(entries))
			}
			shared[i] = strings.TrimPrefix(r.id(), entry.GetKey()+"_")
		}
		found, at = r, &r.below
	}
	return found, shared
}

// nameOf is the name of a descriptor's limiter in Redis. Descriptors that differ have names that differ, but where they share what
// a wildcard grants.
func (d *domain) nameOf(entries []*common.RateLimitDescriptor_Entry, shared []string) (name, slot string) {
	var space [16]string
	parts := append(space[:0], d.name)
	prefix := "rls"
	for i, entry := range entries {
		value := entry.GetValue()
		if shared != nil && shared[i] != "" {
			value = shared[i]
		}
		parts = append(parts, entry.GetKey(), value)
		if slot == "" && d.slotBy != "" && entry.GetKey() == d.slotBy {
			slot = "{" + door.Name(prefix, door.Join(d.name, value)) + "}"
			prefix = slot
		}
	}
	return door.Name(prefix, door.Join(parts...)), slot
}

// override is the limit that a request brings along.
func override(asked *common.RateLimitDescriptor_RateLimitOverride) (*oneLimit, bool) {
	unit := ratelimit.RateLimitResponse_RateLimit_Unit(asked.GetUnit()) // the two enums agree in their numbers
	length, ok := unitLengths[unit]
	if !ok {
		return nil, false
	}
	return &oneLimit{
		budget: windows(uint64(asked.GetRequestsPerUnit()), length),
		shown:  &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: asked.GetRequestsPerUnit(), Unit: unit},
	}, true
}
