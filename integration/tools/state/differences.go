package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Differences returns the differences between two states, a line each. Scores and TTLs may differ
// by slack, since two calls are never simultaneous. The random bytes of grants do not count.
func Differences(a, b State, slack time.Duration) []string {
	var all []string
	differ := func(what string, a, b any) { all = append(all, fmt.Sprintf("%s: %v, and %v", what, a, b)) }
	if !maps.Equal(a.Config, b.Config) {
		differ("configuration", a.Config, b.Config)
	}
	if !closeTo(a.ConfigTTL, b.ConfigTTL, slack) {
		differ("TTL of the configuration", a.ConfigTTL, b.ConfigTTL)
	}
	pair := func(whose string, a, b Pair) {
		if text(a.Value) != text(b.Value) {
			differ(whose+" value", text(a.Value), text(b.Value))
		}
		if !closeTo(a.ValueTTL, b.ValueTTL, slack) {
			differ("TTL of "+whose+" value", a.ValueTTL, b.ValueTTL)
		}
		if !slices.EqualFunc(a.Grants, b.Grants, func(a, b Grant) bool {
			return a.Permits == b.Permits && a.Unknown == b.Unknown && closeTo(a.Score,
				b.Score, slack)
		}) {
			differ(whose+" permits", list(a.Grants), list(b.Grants))
		}
		if !closeTo(a.GrantsTTL, b.GrantsTTL, slack) {
			differ("TTL of "+whose+" permits", a.GrantsTTL, b.GrantsTTL)
		}
	}
	pair("the overall", a.Overall, b.Overall)
	pair("the client's", a.Client, b.Client)
	return all
}

func list(grants []Grant) string {
	var texts []string
	for _, g := range grants {
		texts = append(texts, fmt.Sprintf("%v@%d", g, g.Score))
	}
	return "[" + strings.Join(texts, " ") + "]"
}

func text(value *string) string {
	if value == nil {
		return "none"
	}
	return *value
}

// closeTo compares two times or TTLs. Negative TTLs have other meanings.
func closeTo(a, b int64, slack time.Duration) bool {
	if a < 0 || b < 0 {
		return a == b
	}
	return max(a-b, b-a) <= slack.Milliseconds()
}
