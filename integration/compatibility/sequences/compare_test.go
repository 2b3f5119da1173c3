package sequences_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// requireLaw requires that a call came to what a law says, to the last field.
func (r *run) requireLaw(t *testing.T, who string, want, got outcome, seed string, tw *twins) {
	t.Helper()
	want, got = want.without(r.version), got.without(r.version)
	require.Equal(t, want.replies, got.replies, "%s does not answer as the protocol says\n%s%v", who, seed, tw)
	for _, text := range want.fields(got, false) {
		require.Empty(t, text, "%s does not leave what the protocol says: that, and what was left\n%s%v", who, seed, tw)
	}
}

// explain requires that the differences which a call met, and no others, are what A and B differ
// in.
func (r *run) explain(t *testing.T, m meeting, differ map[string]string, seed string, tw *twins) {
	t.Helper()
	met, beyond := m.met(r.version)
	require.Empty(t, beyond, "a difference touches what it may not\n%s%v", seed, tw)
	for field, text := range differ {
		require.True(t, m.allowed(met, field), "no difference that is known: %s\n%s%v", text, seed, tw)
	}
	for _, d := range met {
		r.met[d]++
		tw.tell("known difference: %s", rules[d].name)
	}
}

// without leaves out what a release does not write: keepAliveTime.
func (o outcome) without(version string) outcome {
	o = o.clone()
	if !calls.AtLeast(version, "3.38.0") {
		delete(o.main.Config, "keepAliveTime")
		delete(o.other.Config, "keepAliveTime")
	}
	return o
}

// report prints what was met.
func (r *run) report(t *testing.T) {
	t.Logf("Redisson %s: %d steps, %d of them by Go on limiter A; %d events", r.version, r.steps, r.byGo, r.events)
	var made, lacks []string
	total := 0
	for _, op := range calls.Ops {
		if n := r.made[op]; n > 0 {
			made = append(made, fmt.Sprintf("%s %d", op, n))
		}
		if n := r.lacks[op]; n > 0 {
			lacks = append(lacks, fmt.Sprintf("%s %d", op, n))
			total += n
		}
	}
	t.Logf("  calls: %s", strings.Join(made, ", "))
	t.Logf("  answers of acquires: %v", r.answers)
	t.Logf("  %d steps left out, since the release lacks the call: %s", total, strings.Join(lacks, ", "))
	t.Logf("  %d requests of callers of one moment went in %d calls", r.sharers, r.sharedCalls)
	var others []string
	for d, rule := range rules {
		if n := r.met[d]; n > 0 {
			t.Logf("  known difference, %4d times: %s", n, rule.name)
		} else {
			others = append(others, rule.name)
		}
	}
	slices.Sort(others)
	t.Logf("  not met: %s", strings.Join(others, "; "))
}
