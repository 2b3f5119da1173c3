package sequences_test

import (
	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// difference is a row of the tables in docs/compatibility.md, or a property of old releases of
// Redisson. The model implements both behaviours of each, so that it computes every field.
type difference int

// The differences, by what this library does.
const (
	nonPositiveRejected  difference = iota // n <= 0 is rejected
	emptyGrantExpires                      // an empty grant, which Redisson made, expires like any other
	lostValueCounted                       // lost value: the grants are counted
	valueCapped                            // a value above the rate counts as the rate
	returnsCapped                          // value and returned permits are capped at the rate
	lostGrantsFree                         // lost grants: all permits are free
	largeRejected                          // n > 4294967295 is rejected
	driftCorrected                         // drift between the value and the grants is corrected
	availableReads                         // availablePermits only reads
	availableBounded                       // availablePermits is 0 to the rate
	releaseRemovesGrants                   // release removes grants
	failedTrySetRate                       // a failed trySetRate changes nothing
	keepAliveRemoved                       // keepAlive 0 after a keepAlive removes the TTL
	typeChanged                            // a new type removes all state
	configLost                             // a new rate after the loss of the configuration removes all state
	deficitKept                            // keepState keeps the excess
	renameMovesState                       // rename moves all keys
	copyCopiesState                        // copy copies all keys
	copyOfMissing                          // a copy of a missing limiter is an error
	unlinkRemovesState                     // unlink removes all keys
	touchesState                           // touch touches all keys
	strayTTLRemoved                        // state in use has no TTL if the configuration has none
	stateTTLExtended                       // state does not expire before its configuration
	clientTTLExtended                      // per-client state expires later than the limiter
	oldClientState                         // setRate of a PER_CLIENT limiter leaves per-client state (old)
	releaseShrinksGrants                   // release removes grants, expired ones first (Redisson's main branch)
	differenceCount
)

// protocol is the behaviour of a release of Redisson, with this library's behaviour for the
// differences in ours.
type protocol struct {
	version string
	ours    [differenceCount]bool
	decides bool // the reply to Take is a Decision
}

// protocolsOf returns the protocols of this library and of a release of Redisson. They differ in the
// documented differences alone.
func protocolsOf(version string) (ours, theirs protocol) {
	ours, theirs = protocol{version: version, decides: true}, protocol{version: version}
	for d := range ours.ours {
		ours.ours[d] = true
	}
	theirs.ours[oldClientState] = calls.AtLeast(version, "3.27.0")
	return ours, theirs
}

// applies reports whether the rule of this library applies.
func (p protocol) applies(d difference) bool { return p.ours[d] }

// outcome has the reply to a call, and the limiters of both names afterwards.
type outcome struct {
	reply calls.Reply
	main  state.State
	other state.State
}

// clone makes a copy that a model may change.
func (o outcome) clone() outcome { return outcome{o.reply, clone(o.main), clone(o.other)} }

// differences returns the differing fields of the limiters.
func (o outcome) differences(other outcome) []string {
	return append(state.Differences(o.main, other.main, slack), state.Differences(o.other, other.other, slack)...)
}
