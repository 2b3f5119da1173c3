package sequences_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// requireOutcome requires that an outcome equals the one of the protocol, to the last field.
func (r *run) requireOutcome(t *testing.T, who string, want, got outcome, seed string, lp *limiterPair) {
	t.Helper()
	want, got = want.without(r.version), got.without(r.version)
	require.Equal(t, want.replies, got.replies, "%s: reply\n%s%v", who, seed, lp)
	for _, text := range want.fields(got, false) {
		require.Empty(t, text, "%s: state of the protocol, and state in Redis\n%s%v", who, seed, lp)
	}
}

// explain requires that documented differences explain all differing fields of A and B.
func (r *run) explain(t *testing.T, m transition, differ map[string]string, seed string, lp *limiterPair) {
	t.Helper()
	causes, beyond := m.causes(r.version)
	require.Empty(t, beyond, "a difference changes fields that it must not\n%s%v", seed, lp)
	for field, text := range differ {
		require.True(t, m.allowed(causes, field), "not a documented difference: %s\n%s%v", text, seed, lp)
	}
	for _, d := range causes {
		r.explained[d]++
		lp.log("known difference: %s", rules[d].name)
	}
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

// report logs the figures of a release.
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
	t.Logf("  replies of acquires: %v", r.answers)
	t.Logf("  %d steps skipped, since the release lacks the call: %s", total, strings.Join(lacks, ", "))
	t.Logf("  %d simultaneous requests shared %d calls", r.sharedRequests, r.sharedCalls)
	var others []string
	for d, rule := range rules {
		if n := r.explained[d]; n > 0 {
			t.Logf("  known difference, %4d times: %s", n, rule.name)
		} else {
			others = append(others, rule.name)
		}
	}
	slices.Sort(others)
	t.Logf("  not seen: %s", strings.Join(others, "; "))
}
