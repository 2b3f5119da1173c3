package rls

import (
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// match returns the rule of a descriptor that has the descriptor's depth, nil if there is none.
// stored has the replacement of each entry's value in the limiter's name. It is the pattern of
// wildcards that share a limiter, a hash, or "" for the value itself.
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

// nameOf returns the name of a descriptor's limiter in Redis. Different descriptors have different
// names, unless they share the limiter of a wildcard.
func (d *domain) nameOf(entries []*common.RateLimitDescriptor_Entry, stored []string) (name, slot string) {
	parts := []string{d.name}
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
