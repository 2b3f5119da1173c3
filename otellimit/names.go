package otellimit

import (
	"fmt"
	"slices"
	"strings"
)

// limiterNames selects the limiters that are reported by name.
type limiterNames struct {
	exact    map[string]bool
	prefixes []string // with their asterisk, the longest first
}

func newNames(listed []string) (limiterNames, error) {
	n := limiterNames{exact: map[string]bool{}}
	for _, name := range listed {
		switch {
		case name == "" || name == "*":
			return n, fmt.Errorf(
				"otellimit: WithLimiterNames: %q selects no limiter: list a name, or a prefix with an asterisk", name)
		case strings.HasSuffix(name, "*"):
			n.prefixes = append(n.prefixes, name)
		default:
			n.exact[name] = true
		}
	}
	slices.SortStableFunc(n.prefixes, func(a, b string) int { return len(b) - len(a) })
	return n, nil
}

// of returns the attribute's value for a limiter name, "" if the name is not listed.
func (n limiterNames) of(name string) string {
	if n.exact[name] {
		return name
	}
	for _, p := range n.prefixes {
		if strings.HasPrefix(name, p[:len(p)-1]) {
			return p
		}
	}
	return ""
}
