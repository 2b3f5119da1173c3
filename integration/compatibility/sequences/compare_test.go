package sequences_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
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
		name = fmt.Sprintf("%s/%d/%s/%s", r.version, r.seed, title, name)
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

// served reports whether the server has the feature that a call needs. If not, it requires that
// each library reports this and changes nothing.
func served(ctx context.Context, t *testing.T, redis rueidis.Client, server servers.Version, call calls.Call,
	libraries map[calls.Library]state.Keys) bool {
	t.Helper()
	for library, keys := range libraries {
		need, some := calls.Needs(library, call.Op)
		if !some || server.Has(need) {
			return true
		}
		before, err := state.Read(ctx, redis, keys)
		require.NoError(t, err)
		reply, err := library.Do(ctx, call)
		if errors.Is(err, oracle.ErrUnsupported) {
			continue
		}
		require.NoError(t, err)
		want := []calls.Reply{calls.Lacking}
		if library.String() == "Go" && slices.Contains([]calls.Op{calls.Copy, calls.CopyAndReplace}, call.Op) {
			want = append(want, "false", calls.NoLimiter) // without a limiter, the script does not reach COPY
		}
		require.Contains(t, want, reply, "%v, %v: %v", server, library, call)
		after, err := state.Read(ctx, redis, keys)
		require.NoError(t, err)
		require.Empty(t, state.Differences(before, after, slack),
			"%v: a call that the server rejects changes nothing: %v", library, call)
	}
	return false
}
