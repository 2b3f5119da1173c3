package guard

import (
	"fmt"
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

// Names returns a unique name for each policy: the given one, or if that is "" its window or its
// kind.
func Names(policies []limit.Policy, given []string) []string {
	names := make([]string, len(policies))
	taken := make(map[string]bool)
	for _, name := range given {
		taken[name] = true
	}
	for i, p := range policies {
		if names[i] = given[i]; names[i] != "" {
			continue
		}
		names[i] = nameOf(p)
		for n := 2; taken[names[i]]; n++ {
			names[i] = fmt.Sprintf("%s-%d", nameOf(p), n)
		}
		taken[names[i]] = true
	}
	return names
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
