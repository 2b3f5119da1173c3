// Package sequences makes random calls on rate limiters, in Go and in Java, and the same calls in
// Java alone, and compares the results.
package sequences_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

const (
	seeds         = 1  // SEQUENCE_SEEDS sets another number
	rounds        = 20 // limiters of a seed, in turn OVERALL and PER_CLIENT
	stepsPerRound = 50

	// tick passes before every step, so that no two grants have the same time. A round takes much less
	// real time, so no grant expires on a slow machine.
	tick  = 10 * time.Minute
	slack = 4 * time.Minute

	// Intervals and times to live end in the middle between two ticks.
	half = tick / 2
)

// The stories and random sequences of calls run on every release of Redisson. On limiter A, Go or
// Java makes each call; on limiter B, Java. After every step the replies and all keys must be those
// of Redisson's protocol, for A with the differences of docs/compatibility.md and no other. This
// includes the keys under the other name of a renamed or copied limiter. If A and B differ, they are
// made equal again.
func TestSequences_RandomCalls_MatchTheModel(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *run) {
		r.sequences(t)
		if r.version != "4.7.0" {
			return
		}
		for _, r.ofMain = range []int{50, 100} {
			t.Run(fmt.Sprintf("%d %% of the releases are those of the main branch", r.ofMain), r.sequences)
		}
	})
}

// sequences plays the stories and the random sequences.
func (r *run) sequences(t *testing.T) {
	first := env.Seed("SEQUENCE_SEED", uint64(time.Now().UnixNano()))
	count := uint64(env.Number("SEQUENCE_SEEDS", seeds))
	r.steps, r.lacks, r.answers = 0, 0, make(map[calls.Reply]int)
	r.stories(t)
	for seed := first; seed < first+count; seed++ {
		r.seed, r.random = seed, rand.New(rand.NewPCG(seed, 0))
		for round := range rounds {
			r.play(t, round)
		}
	}
	t.Logf("Redisson %s: %d steps, and %d skipped, since the release or the server lacks the call; acquires: %v",
		r.version, r.steps, r.lacks, r.answers)
	require.GreaterOrEqual(t, r.steps, int(count)*rounds*stepsPerRound*2/3, "too few steps")
	denied, granted := r.answers["false"], r.answers["true"]+r.answers[calls.Done]
	require.Greater(t, 3*granted, 2*denied, "most acquires must not be trivial denials")
}

// eachRelease runs a test against every release of Redisson that is to be tested.
func eachRelease(t *testing.T, test func(t *testing.T, r *run)) {
	server := servers.Single(t)
	redis := server.Client(t)
	serverVersion := servers.VersionOf(t, redis)
	for _, version := range oracle.VersionsToTest() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			java := oracle.Start(t, version, oracle.Single(server.Addr()))
			test(t, &run{version: version, server: serverVersion, redis: redis, java: java,
				id: rratelimiter.WithClientID(uuid.MustParse(java.ID()))})
		})
	}
}

// run is the test of one release.
type run struct {
	version string
	server  servers.Version
	redis   rueidis.Client
	java    *oracle.Redisson
	id      rratelimiter.Option // of the Clients: Redisson's
	ofMain  int                 // the percentage of Java's releases that are those of the main branch
	seed    uint64
	random  *rand.Rand

	steps   int
	lacks   int                 // steps without a call, since the release or the server lacks it
	answers map[calls.Reply]int // of acquires
}

func (r *run) play(t *testing.T, round int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lp := r.newPair(strconv.Itoa(round))
	lp.big, lp.client = round%10 >= 8, round%2 == 1
	lp.next = []calls.Call{r.rate(calls.TrySetRate, lp)}
	for range stepsPerRound {
		later := tick
		if r.chance(12) {
			later += time.Duration(r.random.IntN(30)) * tick
		}
		r.age(ctx, t, lp, later)
		if r.chance(5) {
			r.apply(ctx, t, lp, events[r.random.IntN(len(events))])
		}
		if r.chance(4) {
			lp.swap()
		}
		before := r.read(ctx, t, lp.a)
		r.step(ctx, t, lp, before, r.choose(lp, before), r.chance(60))
	}
}

// age advances the time of both limiters.
func (r *run) age(ctx context.Context, t *testing.T, lp *limiterPair, later time.Duration) {
	t.Helper()
	lp.each(func(w *testLimiter) {
		for _, k := range []state.Keys{w.keys(), w.otherKeys()} {
			require.NoError(t, state.Age(ctx, r.redis, k, later), lp)
		}
	})
	lp.log("%v later", later)
}

// read reads a limiter under both names.
func (r *run) read(ctx context.Context, t *testing.T, w testLimiter) outcome {
	t.Helper()
	main, err := state.Read(ctx, r.redis, w.keys())
	require.NoError(t, err)
	other, err := state.Read(ctx, r.redis, w.otherKeys())
	require.NoError(t, err)
	return outcome{main: main, other: other}
}

// step makes a call on both limiters and compares.
func (r *run) step(ctx context.Context, t *testing.T, lp *limiterPair, before outcome, call calls.Call, byGo bool) {
	t.Helper()
	seed := fmt.Sprintf("again: SEQUENCE_SEED=%d SEQUENCE_SEEDS=1 REDISSON_VERSIONS=%s "+
		"go test -race -count=1 -run %s ./compatibility/sequences\n",
		r.seed, r.version, strings.Split(t.Name(), "/")[0])
	client := rratelimiter.New(r.redis, r.id) // a count of drift follows its first call
	golang := calls.Go(client.Limiter(lp.a.name))
	javaA, javaB := calls.Java(r.java.Limiter(lp.a.name)), calls.Java(r.java.Limiter(lp.b.name))
	ours, theirs := protocolsOf(r.version)
	if r.chance(r.ofMain) {
		javaA, javaB = mainBranch{javaA, r.redis, lp.a.keys()}, mainBranch{javaB, r.redis, lp.b.keys()}
		theirs.ours[releaseShrinksGrants] = true
	}
	if need, some := calls.Needs(golang, call.Op); some && !r.server.Has(need) {
		r.lacks++ // packages calls and cluster make such calls
		return
	}
	replyB, err := do(ctx, javaB, lp.b, call)
	if errors.Is(err, oracle.ErrUnsupported) {
		r.lacks++
		return
	}
	require.NoError(t, err, lp)
	atB, by, protocolA := time.Now(), javaA, theirs
	if byGo {
		by, protocolA = golang, ours
	}
	replyA, err := do(ctx, by, lp.a, call)
	require.NoError(t, err, lp)
	require.NoError(t, client.Flush(ctx), "a count has not ended")
	atA := time.Now()
	a, b := r.read(ctx, t, lp.a), r.read(ctx, t, lp.b)
	a.reply, b.reply = replyA, replyB
	r.steps++
	switch call.Op {
	case calls.TryAcquire, calls.TryAcquireUntil, calls.Acquire, calls.Take:
		r.answers[replyB]++
	}
	lp.log("%v: %v = %v, Java alone %v; %v", by, call, replyA, replyB, a.main)
	if a.other.Config != nil {
		lp.log("  and of the other name: %v", a.other)
	}

	r.requireOutcome(t, "Java alone", theirs.expected(call, before, atB), b, seed, lp)
	r.requireOutcome(t, by.String(), protocolA.expected(call, before, atA), a, seed, lp)
	if len(a.differences(b)) > 0 {
		from, to := lp.a, lp.b
		if r.chance(50) {
			from, to = to, from
		}
		require.NoError(t, state.Copy(ctx, r.redis, from.keys(), to.keys()))
		require.NoError(t, state.Copy(ctx, r.redis, from.otherKeys(), to.otherKeys()))
	}
}

// do makes a call on a limiter, to its other name if the call has one.
func do(ctx context.Context, by calls.Library, w testLimiter, call calls.Call) (calls.Reply, error) {
	switch call.Op {
	case calls.Rename, calls.RenameNX, calls.Copy, calls.CopyAndReplace:
		call.NewName = w.other
	}
	return by.Do(ctx, call)
}

func (r *run) chance(percent int) bool { return r.random.IntN(100) < percent }

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
