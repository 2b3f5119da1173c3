package sequences_test

import (
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// difference is a row of the tables in docs/compatibility.md, or a property of old releases of
// Redisson. The model implements both behaviours of each, so that it computes every field.
type difference int

const (
	nonPositiveRejected difference = iota
	emptyGrantExpires
	lostValueCounted
	valueCapped
	returnsCapped
	lostGrantsFree
	largeRejected
	driftCorrected
	availableReads
	availableBounded
	releaseRemovesGrants
	failedTrySetRate
	keepAliveRemoved
	typeChanged
	configLost
	deficitKept
	renameMovesState
	copyCopiesState
	copyOfMissing
	strayTTLRemoved
	stateTTLExtended
	clientTTLExtended
	oldClientState
	oldTTLs
	differenceCount
)

// The fields that a difference may change. The used state keys are those of the limiter's type.
const (
	answer    = "reply"
	config    = "configuration"
	configTTL = "TTL of the configuration"
	value     = "the used value"
	valueTTL  = "TTL of the used value"
	permits   = "the used permits"
	setTTL    = "TTL of the used permits"
)

var (
	pair  = []string{value, valueTTL, permits, setTTL}
	pairs = append([]string{"the idle value", "TTL of the idle value", "the idle permits", "TTL of the idle permits"},
		pair...)
	ttls = []string{valueTTL, setTTL, "TTL of the idle value", "TTL of the idle permits"}
)

// rule describes a difference.
type rule struct {
	name  string
	until string // the first release of Redisson that behaves as this library; "" if none does
	may   []string
}

// rules describe this library. The model computes what Redisson does instead.
var rules = [differenceCount]rule{
	nonPositiveRejected: {"n <= 0 is rejected", "", with(pair, answer, configTTL)},
	emptyGrantExpires: {"an empty grant, which Redisson made, expires like any other", "",
		[]string{answer, value, valueTTL, permits, setTTL}}, // a value above the rate is counted again
	lostValueCounted: {"lost value: the grants are counted", "", with(pair, answer)},
	valueCapped: {"a value above the rate counts as the rate", "",
		[]string{answer, value, valueTTL, permits, setTTL}},
	returnsCapped: {"value and returned permits are capped at the rate", "",
		[]string{answer, value, valueTTL, permits, setTTL}},
	lostGrantsFree:       {"lost grants: all permits are free", "", with(pair, answer, configTTL)},
	largeRejected:        {"n > 4294967295 is rejected", "", with(pair, answer, configTTL)},
	driftCorrected:       {"drift between the value and the grants is corrected", "", with(pair, answer)},
	availableReads:       {"availablePermits only reads", "", pair},
	availableBounded:     {"availablePermits is 0 to the rate", "", []string{answer}},
	releaseRemovesGrants: {"release removes grants", "", pair},
	failedTrySetRate:     {"a failed trySetRate changes nothing", "", []string{config}},
	keepAliveRemoved:     {"keepAlive 0 after a keepAlive removes the TTL", "", []string{configTTL, valueTTL, setTTL}},
	typeChanged:          {"a new type removes all state", "", pairs},
	configLost:           {"a new rate after the loss of the configuration removes all state", "", pairs},
	deficitKept:          {"keepState keeps the excess", "", []string{value}},
	renameMovesState:     {"rename moves all keys", "", with(pairs, withPrefix("new ", pairs)...)},
	copyCopiesState:      {"copy copies all keys", "", withPrefix("new ", pairs)},
	copyOfMissing:        {"a copy of a missing limiter is an error", "", []string{answer}},
	strayTTLRemoved: {"state in use has no TTL if the configuration has none", "",
		[]string{valueTTL, setTTL}},
	stateTTLExtended: {"state does not expire before its configuration", "",
		with(ttls, withPrefix("new ", ttls)...)},
	clientTTLExtended: {"per-client state expires later than the limiter", "",
		with(ttls, append(withPrefix("new ", ttls), answer)...)},
	oldClientState: {"setRate of a PER_CLIENT limiter leaves per-client state (old)", "3.27.0", pairs},
	oldTTLs: {"the state does not get the TTL of the configuration (old)", "3.17.3",
		[]string{valueTTL, setTTL}},
}

func with(fields []string, more ...string) []string { return append(slices.Clone(fields), more...) }

func withPrefix(prefix string, fields []string) []string {
	var all []string
	for _, field := range fields {
		all = append(all, prefix+field)
	}
	return all
}

// protocol is the behaviour of a release of Redisson, with this library's behaviour for the
// differences in ours.
type protocol struct {
	version string
	ours    [differenceCount]bool
	shares  bool // simultaneous callers share a call
}

// protocolsOf returns the protocols of this library and of a release of Redisson.
func protocolsOf(version string) (ours, theirs protocol) {
	ours, theirs = protocol{version: version, shares: true}, protocol{version: version}
	for d, rule := range rules {
		ours.ours[d] = true
		theirs.ours[d] = rule.until != "" && calls.AtLeast(version, rule.until)
	}
	return ours, theirs
}

// applies reports whether the rule of this library applies.
func (p protocol) applies(d difference) bool { return p.ours[d] }

func (p protocol) toggled(d difference) protocol {
	p.ours[d] = !p.ours[d]
	return p
}

// outcome has the reply of each request, and the limiters of both names afterwards.
type outcome struct {
	replies []calls.Reply
	main    state.State
	other   state.State
}

// clone makes a copy that a model may change.
func (o outcome) clone() outcome {
	return outcome{slices.Clone(o.replies), clone(o.main), clone(o.other)}
}

// fields returns the differing fields of two outcomes, by the names in rules.
func (o outcome) fields(other outcome, perClient bool) map[string]string {
	differ := make(map[string]string)
	whose := strings.NewReplacer("the overall ", "the used ", "the client's ", "the idle ")
	if perClient {
		whose = strings.NewReplacer("the overall ", "the idle ", "the client's ", "the used ")
	}
	add := func(prefix string, texts []string) {
		for _, text := range texts {
			field, _, _ := strings.Cut(text, ": ")
			differ[prefix+whose.Replace(field)] = prefix + text
		}
	}
	add("", state.Differences(o.main, other.main, slack))
	add("new ", state.Differences(o.other, other.other, slack))
	for i, reply := range o.replies {
		// Java's reply to Take has only whether it granted.
		a, _, _ := strings.Cut(string(reply), ", ")
		b, _, _ := strings.Cut(string(other.replies[i]), ", ")
		if a != b {
			differ[answer] = "reply: " + a + ", and " + b
		}
	}
	return differ
}

// causes returns the differences that change the result of a call, here or in Java. beyond has the
// changes that one of them may not make.
func (m transition) causes(version string) (names []difference, beyond []string) {
	ours, theirs := protocolsOf(version)
	a, b := m.expected(ours), m.expected(theirs)
	for d, rule := range rules {
		if ours.ours[d] == theirs.ours[d] {
			continue
		}
		touched := m.expected(ours.toggled(difference(d))).fields(a, m.perClient)
		for field, text := range m.expected(theirs.toggled(difference(d))).fields(b, m.perClient) {
			touched[field] = text
		}
		if len(touched) > 0 {
			names = append(names, difference(d))
		}
		for field, text := range touched {
			if !m.may(difference(d), field) {
				beyond = append(beyond, rule.name+": "+field+": "+text)
			}
		}
	}
	return names, beyond
}

// may reports whether a difference may change a field. With several requests, a later one depends
// on the state that an earlier one left, so all used state may change.
func (m transition) may(d difference, field string) bool {
	return slices.Contains(rules[d].may, field) || len(m.requests) > 1 && (field == answer || slices.Contains(pair, field))
}

// allowed reports whether one of the differences may change a field.
func (m transition) allowed(names []difference, field string) bool {
	return slices.ContainsFunc(names, func(d difference) bool { return m.may(d, field) })
}
