package guard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Window returns the interval of a policy's quota. For a bucket it is the time in which it fills.
// It is 0 if the interval has no fixed length, or if the policy is unknown.
func Window(p limit.Policy) time.Duration {
	d, _ := policy.Of(p)
	return d.Window
}

// uniqueName returns a name, with a number if it is taken.
func uniqueName(name string, taken []string) string {
	unique := name
	for n := 2; slices.Contains(taken, unique); n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	return unique
}

func nameOf(p limit.Policy) string {
	d, _ := policy.Of(p)
	if d.Label != "" {
		return d.Label
	}
	const day = 24 * time.Hour
	switch d.Window {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case day:
		return "day"
	case 7 * day:
		return "week"
	}
	text := d.Window.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
