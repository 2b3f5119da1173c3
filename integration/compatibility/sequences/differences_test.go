package sequences_test

import (
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// difference is a row of the tables in docs/compatibility.md, or a property of old releases of
// Redisson. The model has both branches of each, so that the effect of a difference is computed to
// the last field.
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
	answer    = "answer"
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

// rules describe this library; the model shows what Redisson does instead.
var rules = [differenceCount]rule{
	nonPositiveRejected: {"n <= 0 is refused", "", with(pair, answer, configTTL)},
	emptyGrantExpires: {"a grant of nothing, which Redisson made, leaves the window like any other", "",
		[]string{answer, value, valueTTL, permits, setTTL}}, // where the rate is below the value, that is counted again
	lostValueCounted: {"the value lost, grants in the set: the grants are counted", "", with(pair, answer)},
	valueCapped: {"a value above the rate counts as the rate", "",
		[]string{answer, value, valueTTL, permits, setTTL}},
	returnsCapped: {"value and what returns are capped at the rate", "",
		[]string{answer, value, valueTTL, permits, setTTL}},
	lostGrantsFree:       {"the set or permits lost: all are free", "", with(pair, answer, configTTL)},
	largeRejected:        {"n > 4294967295 is refused", "", with(pair, answer, configTTL)},
	driftCorrected:       {"drift between the value and the grants is corrected", "", with(pair, answer)},
	availableReads:       {"availablePermits reads only", "", pair},
	availableBounded:     {"availablePermits is 0 to the rate", "", []string{answer}},
	releaseRemovesGrants: {"release takes the grants out", "", pair},
	failedTrySetRate:     {"a failed trySetRate changes nothing", "", []string{config}},
	keepAliveRemoved:     {"keepAlive 0 after a keepAlive: the TTL goes", "", []string{configTTL, valueTTL, setTTL}},
	typeChanged:          {"a new type: all pairs go", "", pairs},
	configLost:           {"a new rate where the configuration was lost: all pairs go", "", pairs},
	deficitKept:          {"keepState keeps the deficit", "", []string{value}},
	renameMovesState:     {"rename takes the whole limiter", "", with(pairs, withPrefix("new ", pairs)...)},
	copyCopiesState:      {"copy takes the whole limiter", "", withPrefix("new ", pairs)},
	copyOfMissing:        {"a copy of nothing is an error", "", []string{answer}},
	strayTTLRemoved: {"state that is used has no TTL where the configuration has none", "",
		[]string{valueTTL, setTTL}},
	stateTTLExtended: {"state that would die before its configuration ttls as long", "",
		with(ttls, withPrefix("new ", ttls)...)},
	clientTTLExtended: {"the client's own pair outlives a limiter that expires", "",
		with(ttls, append(withPrefix("new ", ttls), answer)...)},
	oldClientState: {"setRate of a PER_CLIENT limiter leaves the client's pair (old)", "3.27.0", pairs},
	oldTTLs: {"the state does not live as long as the configuration (old)", "3.17.3",
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

// protocol is the behaviour of a release of Redisson, except for the differences in ours, which are
// this library's.
type protocol struct {
	version string
	ours    [differenceCount]bool
	shares  bool // callers of one moment share a call
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
		// Of Take, Java says only whether it granted.
		a, _, _ := strings.Cut(string(reply), ", ")
		b, _, _ := strings.Cut(string(other.replies[i]), ", ")
		if a != b {
			differ[answer] = "answer: " + a + ", and " + b
		}
	}
	return differ
}

// causes returns the differences that change the result of a call, here or in Java. It also returns
// what one of them changed that it may not.
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
