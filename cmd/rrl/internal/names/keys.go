// Package names tells which key belongs to which limiter, and reads how users write rates and policies.
package names

import (
	"strings"

	"github.com/google/uuid"
)

// Suffixed gives the key of one part of a limiter, as Redisson names it.
func Suffixed(name, part string) string {
	if strings.Contains(name, "{") {
		return name + ":" + part
	}
	return "{" + name + "}:" + part
}

// Part is what a key is to a limiter.
type Part int

// The parts.
const (
	Value   Part = iota + 1 // the free permits of a Redisson limiter
	Permits                 // its grants
	Policy                  // the state of a policy of package limit
)

// Key is a key of a limiter, taken apart.
type Key struct {
	Part   Part
	Prefix string // what stands before the part of a Redisson limiter: a name with a brace as it is, another one in braces
	Client string // of a pair that belongs to one client, its ID
	Policy string // of a policy, its kind and interval: "window:60000"

	name string // of a policy
}

// Parse takes a key apart, where it looks like one of a limiter's state.
func Parse(key string) (Key, bool) {
	// All of them hold a brace: that of the name, or that around it.
	if !strings.Contains(key, "{") {
		return Key{}, false
	}
	base, id := key, ""
	const idLength = 36
	if cut := len(key) - idLength; cut > 0 && key[cut-1] == ':' {
		// As Java and Go write them: in small letters.
		if parsed, err := uuid.Parse(key[cut:]); err == nil && parsed.String() == key[cut:] {
			base, id = key[:cut-1], key[cut:]
		}
	}
	for text, part := range map[string]Part{":value": Value, ":permits": Permits} {
		if prefix, ok := strings.CutSuffix(base, text); ok && strings.Contains(prefix, "{") {
			return Key{Part: part, Prefix: prefix, Client: id}, true
		}
	}
	if prefix, policy, ok := cutPolicy(key); ok {
		if named, ok := strings.CutSuffix(prefix, ":"); ok && strings.Contains(named, "{") {
			return Key{Part: Policy, Prefix: named, Policy: policy, name: named}, true
		}
		if inner, ok := inBraces(prefix); ok {
			return Key{Part: Policy, Prefix: prefix, Policy: policy, name: inner}, true
		}
	}
	return Key{}, false
}

// ofPolicy gives the key of a policy of package limit, as it names it: "bob" and "{bob}" have different ones.
func ofPolicy(name, policy string) string {
	if strings.Contains(name, "{") {
		return name + "::" + policy
	}
	return "{" + name + "}:" + policy
}

// cutPolicy finds the last ":kind:" of a key whose rest is one of package limit's.
func cutPolicy(key string) (prefix, policy string, ok bool) {
	for end := len(key); ; {
		colon := strings.LastIndexByte(key[:end], ':')
		if colon <= 0 {
			return "", "", false
		}
		if _, ok := ParseStored(key[colon+1:]); ok && strings.Contains(key[:colon], "{") {
			return key[:colon], key[colon+1:], true
		}
		end = colon
	}
}

// Names gives the names that a limiter whose keys begin so can have: for Redisson a name without braces, and the same in braces,
// have the same keys.
func (k Key) Names() []string {
	if k.Part == Policy {
		return []string{k.name}
	}
	if inner, ok := inBraces(k.Prefix); ok {
		return []string{inner, k.Prefix}
	}
	return []string{k.Prefix}
}

// Name is the likeliest of them.
func (k Key) Name() string { return k.Names()[0] }

func inBraces(prefix string) (inner string, ok bool) {
	if len(prefix) < 2 || prefix[0] != '{' || prefix[len(prefix)-1] != '}' {
		return "", false
	}
	inner = prefix[1 : len(prefix)-1]
	return inner, !strings.Contains(inner, "{")
}

// Pair gives the keys of a pair: of all clients together, or of the client of an ID.
func Pair(name, client string) (value, permits string) {
	value, permits = Suffixed(name, "value"), Suffixed(name, "permits")
	if client != "" {
		value, permits = value+":"+client, permits+":"+client
	}
	return value, permits
}

// Pattern is a pattern of Redis, for SCAN, of all keys of a limiter's state.
func Pattern(name string) string {
	var escaped strings.Builder
	for _, c := range []byte(Suffixed(name, "")) {
		if strings.IndexByte(`*?[]\^-`, c) >= 0 {
			escaped.WriteByte('\\')
		}
		escaped.WriteByte(c)
	}
	return escaped.String() + "*"
}
