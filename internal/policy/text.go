package policy

import (
	"iter"
	"reflect"
	"strings"
	"time"
)

// Text is how the policies of a kind are written in keys, and in what their scripts keep in Redis. The
// tool refuses the policies of a kind with a zero Text.
type Text[P any] struct {
	// Words are what the keys begin with, up to a colon: "window" of "window:60000".
	Words []string

	// FromKey parses a policy's part of a key: a word and the text after its colon. The key does not
	// contain the permits: the policy has as few as possible. The policy of a text that is no such part
	// has another key, or is invalid.
	FromKey func(word, rest string) P

	// Short formats what the notation has after the name, without the permits: "/1m".
	Short func(P) string

	// Read reads the state. It returns false for a content that the scripts do not write.
	Read func(P, Content) (State, bool)
}

// Content is what Redis holds of a policy.
type Content struct {
	Text    string           // of a string, at most Longest bytes; of a list, the newest entry
	Entries iter.Seq[string] // of a list, the oldest first
	TTL     int64            // milliseconds; below 0 if the key never expires
	Now     time.Time
}

// State is the state of a policy. Redis does not hold its limit. Times are milliseconds from now: a
// time.Duration does not hold them all.
type State struct {
	Taken   int64    // permits; 0 for OnCredit and Pausing
	About   bool     // Taken was computed from the expiry of the key, since the refill is unknown
	Busy    int64    // OnCredit, Pausing: until the next request is granted
	Ends    int64    // until nothing is taken
	Returns []Return // as far as the state has their times
}

// MaxReturns is the number of Returns that are enough.
const MaxReturns = 256

// Return has the permits that return up to a time, without those of earlier Returns.
type Return struct {
	AfterMS int64 `json:"after_ms"`
	Permits int64 `json:"permits"`
}

// untyped returns the text for any policy.
func (t Text[P]) untyped() Text[any] {
	policy := func(p any) P { return p.(P) } //nolint:errcheck,forcetypeassert // they are looked up by this type
	return Text[any]{
		Words:   t.Words,
		FromKey: func(word, rest string) any { return t.FromKey(word, rest) },
		Short:   func(p any) string { return t.Short(policy(p)) },
		Read:    func(p any, c Content) (State, bool) { return t.Read(policy(p), c) },
	}
}

// ParseKey returns the policy of a part of a key, with as few permits as possible. It may be invalid.
func ParseKey(part string) (p any, ok bool) {
	word, rest, _ := strings.Cut(part, ":")
	k, ok := kinds[words[word]]
	if !ok {
		return nil, false
	}
	p = k.text.FromKey(word, rest)
	return p, k.describe(p).Key == part
}

// Short formats a policy that ParseKey returned, without its permits.
func Short(p any) string {
	k := kinds[reflect.TypeOf(p)]
	return k.Name + k.text.Short(p)
}

// Read reads the state of a policy that ParseKey returned.
func Read(p any, c Content) (State, bool) { return kinds[reflect.TypeOf(p)].text.Read(p, c) }
