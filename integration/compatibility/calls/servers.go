package calls

import "github.com/rratelimiter/rratelimiter/integration/tools/servers"

// Needs is what a call needs of the server, where that is something that not all servers have.
// Without it the reply is Lacking.
func Needs(by Side, op Op) (need servers.Feature, some bool) {
	switch op {
	case Copy, CopyAndReplace:
		return servers.CopyCommand, true
	case ExpireIfSet, ExpireIfNotSet, ExpireIfGreater, ExpireIfLess, ExpireAtIfSet, ExpireAtIfNotSet, ExpireAtIfGreater,
		ExpireAtIfLess:
		return servers.ExpireCondition, true
	case ExpireTime:
		// Go makes do without.
		return servers.ExpireTime, by.String() == "Java"
	}
	return servers.Feature{}, false
}
