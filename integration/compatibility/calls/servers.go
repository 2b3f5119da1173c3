package calls

import "github.com/rratelimiter/rratelimiter/integration/tools/servers"

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
