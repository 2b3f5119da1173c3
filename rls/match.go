package rls

import (
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// match returns the rule of a descriptor that has the descriptor's depth, noRule if there is none.
// stored has the replacement of each entry's value in the limiter's name. It is the pattern of
// wildcards that share a limiter, a hash, or "" for the value itself.
func (d *domain) match(entries []*common.RateLimitDescriptor_Entry) (matched *rule, stored []string) {
	matched = noRule
	at := &d.rules
	for i, entry := range entries {
		r := at.find(entry.GetKey(), entry.GetValue())
		if r == nil {
			return noRule, nil
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
		matched, at = r, &r.below
	}
	return matched, stored
}

// namePrefix is the first part of the names of limiters.
const namePrefix = "rls"

// nameOf returns the name of a descriptor's limiter in Redis. Different descriptors have different
// names, unless they share the limiter of a wildcard. With slot_by, the name has a hash tag.
func (d *domain) nameOf(desc *descriptor) string {
	parts := []string{d.name}
	prefix := namePrefix
	for i, entry := range desc.entries {
		value := entry.GetValue()
		if desc.stored != nil && desc.stored[i] != "" {
			value = desc.stored[i]
		}
		parts = append(parts, entry.GetKey(), value)
		if prefix == namePrefix && d.slotBy != "" && entry.GetKey() == d.slotBy {
			prefix = "{" + guard.Name(prefix, guard.Join(d.name, value)) + "}"
		}
	}
	return guard.Name(prefix, guard.Join(parts...))
}
