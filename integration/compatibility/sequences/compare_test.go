package sequences_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// requireOutcome requires that an outcome equals the one of the protocol, to the last field.
func (r *run) requireOutcome(t *testing.T, who string, want, got outcome, seed string, lp *limiterPair) {
	t.Helper()
	want, got = want.without(r.version), got.without(r.version)
	require.Equal(t, want.reply, got.reply, "%s: reply\n%s%v", who, seed, lp)
	require.Empty(t, want.differences(got), "%s: state of the protocol, and state in Redis\n%s%v", who, seed, lp)
}

// without removes keepAliveTime if the release does not write it.
func (o outcome) without(version string) outcome {
	o = o.clone()
	if !calls.AtLeast(version, "3.38.0") {
		delete(o.main.Config, "keepAliveTime")
		delete(o.other.Config, "keepAliveTime")
	}
	return o
}

// limiterPair has the limiters A and B of one round.
type limiterPair struct {
	a, b     testLimiter
	big      bool // a rate above 2^32
	client   bool // most rates are PER_CLIENT
	history  []string
	expiries int
	next     []calls.Call // to be made before others
}

// testLimiter is a limiter with two names. A call may rename or copy it from one to the other, and
// swap exchanges them.
type testLimiter struct {
	name, other string
	id          string
}

func (w testLimiter) keys() state.Keys { return state.KeysOf(w.name, w.id) }

func (w testLimiter) otherKeys() state.Keys { return state.KeysOf(w.other, w.id) }

func (lp *limiterPair) each(do func(w *testLimiter)) {
	do(&lp.a)
	do(&lp.b)
}

// swap makes the following calls use the limiters of the other names.
func (lp *limiterPair) swap() {
	lp.each(func(w *testLimiter) { w.name, w.other = w.other, w.name })
	lp.log("the limiter of the other name")
}

func (r *run) newPair(title string) *limiterPair {
	of := func(name string) testLimiter {
		name = fmt.Sprintf("%s/%d/%d/%s/%s", r.version, r.ofMain, r.seed, title, name)
		return testLimiter{name: name, other: name + "2", id: r.java.ID()}
	}
	return &limiterPair{a: of("a"), b: of("b")}
}

// String returns the last steps of the round.
func (lp *limiterPair) String() string {
	const enough = 25
	return "what happened:\n" + strings.Join(lp.history[max(0, len(lp.history)-enough):], "\n")
}

func (lp *limiterPair) log(format string, args ...any) {
	lp.history = append(lp.history, fmt.Sprintf(format, args...))
}
