package calls

import (
	"fmt"
	"slices"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// AtLeast reports whether a release of Redisson is at least another one. It panics for a text that
// is no release.
func AtLeast(version, since string) bool {
	var a, b [3]int
	for text, numbers := range map[string]*[3]int{version: &a, since: &b} {
		if _, err := fmt.Sscanf(text, "%d.%d.%d", &numbers[0], &numbers[1], &numbers[2]); err != nil {
			panic(fmt.Sprintf("%q is no release of Redisson: %v", text, err))
		}
	}
	return slices.Compare(a[:], b[:]) >= 0
}

// Needs returns the feature that a call needs, if some servers lack it. The reply is Lacking then.
func Needs(by Library, op Op) (need servers.Feature, some bool) {
	switch op {
	case Copy, CopyAndReplace:
		return servers.CopyCommand, true
	case ExpireIfSet, ExpireIfNotSet, ExpireIfGreater, ExpireIfLess, ExpireAtIfSet, ExpireAtIfNotSet, ExpireAtIfGreater,
		ExpireAtIfLess:
		return servers.ExpireCondition, true
	case ExpireTime:
		// Go works without it.
		return servers.ExpireTime, by.String() == "Java"
	}
	return servers.Feature{}, false
}
