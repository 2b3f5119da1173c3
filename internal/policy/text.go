package policy

import (
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/notation"
)

// Content is what Redis holds of a policy.
type Content struct {
	// Text is a string of at most Longest bytes, or the newest entry of a list. Of a sorted set it is the
	// first two members and the last one, each with its score, with spaces between them.
	Text    string
	Entries iter.Seq[string] // of a list, the oldest first; of a sorted set those behind the first two, with their scores
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
	Places  []Place  // Held: those of the requests, the oldest first
}

// Place is what one request holds.
type Place struct {
	AgeMS   int64 `json:"age_ms"` // by the clock of its Client
	EndsMS  int64 `json:"ends_ms"`
	Permits int64 `json:"permits"`
	Renewed bool  `json:"renewed,omitempty"` // its lease was renewed at least once
}

// MaxPlaces is the number of Places that are enough.
const MaxPlaces = 10_000

// MaxReturns is the number of Returns that are enough.
const MaxReturns = 256

// Return has the permits that return up to a time, without those of earlier Returns.
type Return struct {
	AfterMS int64 `json:"after_ms"`
	Permits int64 `json:"permits"`
}

// KeyInterval parses the interval in a key, in milliseconds. It returns 0 for another text.
func KeyInterval(text string) time.Duration {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > notation.MaxPermits/1000 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// ParseKey returns the policy of a part of a key, with as few permits as possible. It may be invalid.
func ParseKey(part string) (p any, ok bool) {
	word, rest, _ := strings.Cut(part, ":")
	k, ok := kinds[words[word]]
	if !ok {
		return nil, false
	}
	p = k.FromKey(word, rest)
	return p, k.Describe(p).Key == part
}

// Short formats a policy that ParseKey returned, without its permits.
func Short(p any) string {
	k := kinds[reflect.TypeOf(p)]
	if interval := k.Describe(p).Interval; interval > 0 {
		return k.Name + "/" + notation.FormatDuration(interval) + k.Short(p)
	}
	return k.Name + k.Short(p)
}

// Read reads the state of a policy that ParseKey returned.
func Read(p any, c Content) (State, bool) { return kinds[reflect.TypeOf(p)].Read(p, c) }
