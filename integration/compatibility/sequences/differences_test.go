package sequences_test

import (
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// difference is a row of the differences in docs/compatibility.md, or something that only old
// releases of Redisson do. A model decides at the place of each by the one rule or the other, so
// that what a difference comes to is computed to the last field.
type difference int

const (
	nothingRefused difference = iota
	nothingGoes
	valueCounted
	valueCapped
	returnsCapped
	setHeals
	largeRefused
	driftCorrected
	availableReads
	availableBounded
	releaseTakes
	failedTry
	keepAliveGoes
	typeChanged
	configLost
	deficitKept
	movesWhole
	copiesWhole
	copyOfNothing
	noStrayLife
	stateOutlives
	ownPairOutlives
	oldClientPair
	oldLives
	endOfDifferences
)

// What a difference may touch. The pair in use is that of the type which the call works with, the
// idle one the other.
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
	lives = []string{valueTTL, setTTL, "TTL of the idle value", "TTL of the idle permits"}
)

// rule is what there is to know of a difference.
type rule struct {
	name  string
	until string // the first release of Redisson that decides as we do, "" where none does
	may   []string
}

// rules describe what this library does; what Redisson does stands at the place in the model.
var rules = [endOfDifferences]rule{
	nothingRefused: {"n <= 0 is refused", "", with(pair, answer, configTTL)},
	nothingGoes: {"a grant of nothing, which Redisson made, leaves the window like any other", "",
		[]string{answer, value, valueTTL, permits, setTTL}}, // where the rate is below the value, that is counted again
	valueCounted: {"the value lost, grants in the set: the grants are counted", "", with(pair, answer)},
	valueCapped: {"a value above the rate counts as the rate", "",
		[]string{answer, value, valueTTL, permits, setTTL}},
	returnsCapped: {"value and what returns are capped at the rate", "",
		[]string{answer, value, valueTTL, permits, setTTL}},
	setHeals:         {"the set or permits lost: all are free", "", with(pair, answer, configTTL)},
	largeRefused:     {"n > 4294967295 is refused", "", with(pair, answer, configTTL)},
	driftCorrected:   {"drift between the value and the grants is corrected", "", with(pair, answer)},
	availableReads:   {"availablePermits reads only", "", pair},
	availableBounded: {"availablePermits is 0 to the rate", "", []string{answer}},
	releaseTakes:     {"release takes the grants out", "", pair},
	failedTry:        {"a failed trySetRate changes nothing", "", []string{config}},
	keepAliveGoes:    {"keepAlive 0 after a keepAlive: the TTL goes", "", []string{configTTL, valueTTL, setTTL}},
	typeChanged:      {"a new type: all pairs go", "", pairs},
	configLost:       {"a new rate where the configuration was lost: all pairs go", "", pairs},
	deficitKept:      {"keepState keeps the deficit", "", []string{value}},
	movesWhole:       {"rename takes the whole limiter", "", with(pairs, both("new ", pairs)...)},
	copiesWhole:      {"copy takes the whole limiter", "", both("new ", pairs)},
	copyOfNothing:    {"a copy of nothing is an error", "", []string{answer}},
	noStrayLife: {"state that is used has no TTL where the configuration has none", "",
		[]string{valueTTL, setTTL}},
	stateOutlives: {"state that would die before its configuration lives as long", "",
		with(lives, both("new ", lives)...)},
	ownPairOutlives: {"the client's own pair outlives a limiter that expires", "",
		with(lives, append(both("new ", lives), answer)...)},
	oldClientPair: {"setRate of a PER_CLIENT limiter leaves the client's pair (old)", "3.27.0", pairs},
	oldLives: {"the state does not live as long as the configuration (old)", "3.17.3",
		[]string{valueTTL, setTTL}},
}

func with(fields []string, more ...string) []string { return append(slices.Clone(fields), more...) }

func both(prefix string, fields []string) []string {
	var all []string
	for _, field := range fields {
		all = append(all, prefix+field)
	}
	return all
}

// law is by whose rules a model decides: Redisson's of a release, but for the differences that are
// given.
type law struct {
	version string
	ours    [endOfDifferences]bool
	shares  bool // callers of one moment share a call
}

// lawOf gives the law of the library here, and that of a release of Redisson.
func lawOf(version string) (ours, theirs law) {
	ours, theirs = law{version: version, shares: true}, law{version: version}
	for d, rule := range rules {
		ours.ours[d] = true
		theirs.ours[d] = rule.until != "" && calls.AtLeast(version, rule.until)
	}
	return ours, theirs
}

// here reports whether our rule holds.
func (l law) here(d difference) bool { return l.ours[d] }

func (l law) but(d difference) law {
	l.ours[d] = !l.ours[d]
	return l
}

// outcome is what a call came to: for callers that shared a call a reply for each, and the limiters
// of both names.
type outcome struct {
	replies []calls.Reply
	main    state.State
	other   state.State
}

// clone makes a copy that a model may change.
func (o outcome) clone() outcome {
	return outcome{slices.Clone(o.replies), clone(o.main), clone(o.other)}
}

// fields tells in what two outcomes differ, by the names that rules use.
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

// met returns the differences that change the result of a call, here or in Java. It also returns
// what one of them changed that it may not.
func (m meeting) met(version string) (names []difference, beyond []string) {
	ours, theirs := lawOf(version)
	a, b := m.play(ours), m.play(theirs)
	for d, rule := range rules {
		if ours.ours[d] == theirs.ours[d] {
			continue
		}
		touched := m.play(ours.but(difference(d))).fields(a, m.perClient)
		for field, text := range m.play(theirs.but(difference(d))).fields(b, m.perClient) {
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

// may reports whether a difference may change a field. Of several requests a later one finds what
// an earlier one left: there it may change all that they do.
func (m meeting) may(d difference, field string) bool {
	return slices.Contains(rules[d].may, field) || len(m.deed) > 1 && (field == answer || slices.Contains(pair, field))
}

// allowed reports whether one of the differences may change a field.
func (m meeting) allowed(names []difference, field string) bool {
	return slices.ContainsFunc(names, func(d difference) bool { return m.may(d, field) })
}
