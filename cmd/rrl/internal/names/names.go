// Package names maps keys to limiters and parses rates and policies.
package names

import (
	"encoding"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // calendars work without time zones on the machine
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Quote formats a name for a terminal. It returns a Go string literal if the name contains spaces, invalid
// UTF-8 or unprintable characters, or looks like a literal. Unquote reverses it.
func Quote(name string) string {
	strange := func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' || c == utf8.RuneError }
	if name == "" || name[0] == '"' || strings.ContainsFunc(name, strange) {
		return strconv.Quote(name)
	}
	return name
}

// Unquote parses a name that Quote or JSON wrote. It returns any other text unchanged.
func Unquote(text string) string {
	if !strings.HasPrefix(text, `"`) {
		return text
	}
	if name, err := strconv.Unquote(text); err == nil && name != "" {
		return name
	}
	return text
}

// Name is a name or a key in JSON. A name with invalid UTF-8 or NUL, or one that looks like a literal, is
// written as a Go string literal: JSON or an argument cannot hold it. Unquote reverses it.
type Name string

var _ encoding.TextMarshaler = Name("")

// MarshalText is called by encoding/json.
func (n Name) MarshalText() ([]byte, error) {
	if text := string(n); !utf8.ValidString(text) || strings.HasPrefix(text, `"`) || strings.Contains(text, "\x00") {
		return []byte(strconv.Quote(text)), nil
	}
	return []byte(n), nil
}

// Rate formats permits and interval: "100/1m".
func Rate(r rratelimiter.Rate) string {
	return strconv.FormatInt(r.Permits, 10) + "/" + notation.FormatDuration(r.Interval)
}

// AboutMillis is About of a number of milliseconds.
func AboutMillis(n int64) string { return About(Millis(n)) }

// Millis returns a number of milliseconds as a Duration, at most the longest one.
func Millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// About formats a waiting time with about two significant digits.
func About(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return notation.FormatDuration(d.Round(time.Second))
	case d < 48*time.Hour:
		return notation.FormatDuration(d.Round(time.Minute))
	}
	return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
}

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

// mark matches a key that expires by itself: the mark of a count of drift or of a settlement, or the Clients that
// wait.
var mark = regexp.MustCompile(`\}.*:(counted|(settled|waiters):[0-9a-f]{16})$`)

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

// Stored is a policy of package limit as a key has it: without the permits. The Policy has as few as
// possible, for calls that take none.
type Stored struct {
	limit.Policy
	policy.Description
}

// ParseStored parses the policy in a key.
func ParseStored(part string) (Stored, bool) {
	p, ok := policy.ParseKey(part)
	least, known := p.(limit.Policy)
	if !ok || !known || limit.Validate(least) != nil {
		return Stored{}, false
	}
	d, _ := policy.Of(p)
	return Stored{least, d}, true
}

// KeyOf returns the key of the policy of a limiter. "bob" and "{bob}" have different keys.
func (s Stored) KeyOf(name string) string {
	if strings.Contains(name, "{") {
		return name + "::" + s.Key
	}
	return "{" + name + "}:" + s.Key
}

// String formats the policy in the notation of --policy, without its permits.
func (s Stored) String() string { return policy.Short(s.Policy) }

// OnCredit reports whether the policy has no taken permits, but a time at which it grants again.
func (s Stored) OnCredit() bool { return s.Refill == policy.OnCredit }

// Pauses reports whether the policy is a pause, which has no permits.
func (s Stored) Pauses() bool { return s.Refill == policy.Pausing }

// Held reports whether the permits are held until they are returned.
func (s Stored) Held() bool { return s.Refill == policy.Held }

// Given is a policy given by the user.
type Given struct {
	limit.Policy
	Stored Stored // the part in its key
	Most   int64  // the limit, 0 if it has none
}

// ParsePolicy parses a policy of package limit.
func ParsePolicy(text string) (Given, error) {
	parsed, err := policy.Parse(text)
	p, ok := parsed.(limit.Policy)
	if err == nil && ok {
		err = limit.Validate(p)
	}
	if err != nil {
		return Given{}, fmt.Errorf("%q is not a policy: %w; the notation is:\n%s", text, err, policy.Help())
	}
	return NewGiven(p)
}

// NewGiven returns the Given of a policy.
func NewGiven(p limit.Policy) (Given, error) {
	d, _ := policy.Of(p)
	stored, ok := ParseStored(d.Key)
	if !ok {
		return Given{}, fmt.Errorf("rrl cannot read the keys of %T", p)
	}
	g := Given{Policy: p, Stored: stored}
	if !stored.OnCredit() {
		g.Most = d.Quota
	}
	return g, nil
}
