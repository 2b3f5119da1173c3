// Package names maps keys to limiters and parses rates and policies.
package names

import (
	"path"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// Suffixed returns the key of one part of a limiter, as Redisson names it.
func Suffixed(name, part string) string {
	if strings.Contains(name, "{") {
		return name + ":" + part
	}
	return "{" + name + "}:" + part
}

// Part is the role of a key.
type Part int

// Parts.
const (
	Value   Part = iota + 1 // the free permits of a Redisson limiter
	Permits                 // its grants
	Policy                  // the state of a policy of package limit
)

// Key is the parsed key of a limiter.
type Key struct {
	Part   Part
	Prefix string // of a Redisson limiter: the name, in braces if it has none
	Client string // the ID, of a pair of one client
	Policy string // of a policy, its kind and interval: "window:60000"

	name string // of a policy
}

// Parse parses a key that looks like one of a limiter's state.
func Parse(key string) (Key, bool) {
	// All of them contain a brace: of the name, or around it.
	if !strings.Contains(key, "{") {
		return Key{}, false
	}
	base, id := key, ""
	const idLength = 36
	if cut := len(key) - idLength; cut > 0 && key[cut-1] == ':' {
		// Java and Go write them in lower case.
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

// ofPolicy returns the key of a policy of package limit. "bob" and "{bob}" have different keys.
func ofPolicy(name, policy string) string {
	if strings.Contains(name, "{") {
		return name + "::" + policy
	}
	return "{" + name + "}:" + policy
}

// cutPolicy cuts a key at the last ":" before a valid policy of package limit.
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

// unknown matches the key of a policy, in the name's braces or behind a name that has some.
var unknown = regexp.MustCompile(`^(?s:\{([^{}]+)\}|(.*\{.+):):[a-z]+(:[0-9A-Za-z_/+.-]+)*$`)

// mark matches a key that expires by itself: the mark of a count of drift or of a settlement.
var mark = regexp.MustCompile(`\}.*:(counted|settled:[0-9a-f]{16})$`)

// MayBePolicy reports whether a key that Parse does not know can be the key of a policy, and the name of
// its limiter.
func MayBePolicy(key string) (name string, ok bool) {
	parts := unknown.FindStringSubmatch(key)
	if parts == nil || mark.MatchString(key) {
		return "", false
	}
	return parts[1] + parts[2], true
}

// Names returns the possible names of the limiter. In Redisson, a name without braces and the same name in
// braces have the same keys.
func (k Key) Names() []string {
	if k.Part == Policy {
		return []string{k.name}
	}
	if inner, ok := inBraces(k.Prefix); ok {
		return []string{inner, k.Prefix}
	}
	return []string{k.Prefix}
}

// Name returns the most likely one.
func (k Key) Name() string { return k.Names()[0] }

func inBraces(prefix string) (inner string, ok bool) {
	if len(prefix) < 2 || prefix[0] != '{' || prefix[len(prefix)-1] != '}' {
		return "", false
	}
	inner = prefix[1 : len(prefix)-1]
	return inner, !strings.Contains(inner, "{")
}

// Pair returns the keys of a pair: of all clients together, or of the client with an ID.
func Pair(name, client string) (value, permits string) {
	value, permits = Suffixed(name, "value"), Suffixed(name, "permits")
	if client != "" {
		value, permits = value+":"+client, permits+":"+client
	}
	return value, permits
}

// Pattern returns a pattern for SCAN of all keys of a limiter's state.
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

// Match reports whether a name matches a pattern of Redis: * and ? match any characters, [ab], [a-z] and
// [^a] match one character of a set, and a backslash escapes the next character.
func Match(pattern, name string) bool {
	const other = "\x00" // for package path, a slash is a character that * does not match
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", other), strings.ReplaceAll(name, "/", other))
	return ok // a pattern with an open set matches nothing
}
