package names

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Stored is the part of a policy of package limit that its key contains: its kind and, for example, its
// interval. The key does not contain the limit.
type Stored struct {
	Kind     string        // "window", "aligned", "sliding", "log", "bucket", "leaky", "smooth", "warmup", or a unit of the calendar
	Interval time.Duration // 0 for a unit of the calendar
	Cells    int64         // of "sliding"
	Place    string        // of a unit of the calendar
}

// ParseStored parses the policy in a key.
func ParseStored(text string) (Stored, bool) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok {
		return Stored{}, false
	}
	s := Stored{Kind: kind}
	switch kind {
	case "window", "aligned", "log", "bucket", "leaky", "smooth", "warmup":
	case "sliding":
		var cells string
		if rest, cells, ok = strings.Cut(rest, ":"); !ok {
			return Stored{}, false
		}
		if s.Cells, ok = whole(cells); !ok || s.Cells < 2 || s.Cells > 1000 {
			return Stored{}, false
		}
	case "day", "week", "month", "year":
		s.Place = rest
		return s, isPlace(rest)
	default:
		return Stored{}, false
	}
	ms, ok := whole(rest)
	s.Interval = time.Duration(ms) * time.Millisecond
	return s, ok && ms > 0 && ms <= 1<<53/1000
}

// places caches valid time zones, since many keys can name them.
var places sync.Map

func isPlace(name string) bool {
	if _, found := places.Load(name); found || name == "" {
		return found
	}
	_, err := time.LoadLocation(name)
	if err == nil {
		places.Store(strings.Clone(name), true)
	}
	return err == nil
}

// whole parses a number in the form that keys have.
func whole(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// Type returns the type of the key in Redis.
func (s Stored) Type() string {
	if s.Kind == "log" {
		return "list"
	}
	return "string"
}

// MaxText returns the maximum size of a key of type string.
func (s Stored) MaxText() int64 { return 256 + 40*s.Cells }

// String formats the policy in the notation of --policy, without its limit.
func (s Stored) String() string {
	switch {
	case s.Place != "":
		return s.Kind + "@" + s.Place
	case s.Cells != 0:
		return fmt.Sprintf("%s/%s/%d", s.Kind, Duration(s.Interval), s.Cells)
	}
	return s.Kind + "/" + Duration(s.Interval)
}
