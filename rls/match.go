package rls

import (
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// match returns the rule of a descriptor whose depth is the rule's, nil if there is none. stored has what stands
// for the value of each entry in the limiter's name: the pattern of wildcards that share what they grant, a hash,
// or "" for the value itself.
func (d *domain) match(entries []*common.RateLimitDescriptor_Entry) (found *rule, stored []string) {
	at := &d.rules
	for i, entry := range entries {
		r := at.find(entry.GetKey(), entry.GetValue())
		if r == nil {
			return nil, nil
		}
		if stored == nil && (r.shared || r.hashed) {
			stored = make([]string, len(entries))
		}
		switch {
		case r.shared:
			stored[i] = strings.TrimPrefix(r.id(), entry.GetKey()+"_")
		case r.hashed:
			stored[i] = guard.Hash(entry.GetValue())
		}
		found, at = r, &r.below
	}
	return found, stored
}

// namePrefix is the first part of the names of limiters.
const namePrefix = "rls"

// nameOf is the name of a descriptor's limiter in Redis. Descriptors that differ have names that differ, unless
// they share what a wildcard grants.
func (d *domain) nameOf(entries []*common.RateLimitDescriptor_Entry, stored []string) (name, slot string) {
	var space [16]string
	parts := append(space[:0], d.name)
	prefix := namePrefix
	for i, entry := range entries {
		value := entry.GetValue()
		if stored != nil && stored[i] != "" {
			value = stored[i]
		}
		parts = append(parts, entry.GetKey(), value)
		if slot == "" && d.slotBy != "" && entry.GetKey() == d.slotBy {
			slot = "{" + guard.Name(prefix, guard.Join(d.name, value)) + "}"
			prefix = slot
		}
	}
	return guard.Name(prefix, guard.Join(parts...)), slot
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
