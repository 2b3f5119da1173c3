package otellimit

import (
	"fmt"
	"slices"
	"strings"
)

// names is which limiters are told by name.
type names struct {
	exact      map[string]bool
	beginnings []string // with their asterisk, the longest first
}

func newNames(told []string) (names, error) {
	n := names{exact: map[string]bool{}}
	for _, name := range told {
		switch {
		case name == "" || name == "*":
			return n, fmt.Errorf("otellimit: WithLimiterNames: %q says nothing of a limiter: give its name, or the beginning of some and an asterisk", name)
		case strings.HasSuffix(name, "*"):
			n.beginnings = append(n.beginnings, name)
		default:
			n.exact[name] = true
		}
	}
	slices.SortStableFunc(n.beginnings, func(a, b string) int { return len(b) - len(a) })
	return n, nil
}

// of is what the limiter of that name is called in attributes, "" where it is not told.
func (n names) of(name string) string {
	if n.exact[name] {
		return name
	}
	for _, b := range n.beginnings {
		if strings.HasPrefix(name, b[:len(b)-1]) {
			return b
		}
	}
	return ""
}
