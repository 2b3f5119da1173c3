// Package sequences makes random calls on rate limiters, from Go and from Java, and the same calls from Java alone, and compares.
package sequences_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
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
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

const (
	seeds         = 3  // of a run, unless SEQUENCE_SEEDS says how many
	rounds        = 20 // limiters of a seed, in turn OVERALL and PER_CLIENT
	stepsPerRound = 50

	// tick passes before every step, so that no two grants are made at the same moment and none leaves the window because the machine
	// was slow: compared with it, the real time that a round takes is nothing.
	tick  = 10 * time.Minute
	slack = 4 * time.Minute

	// The intervals and times to live end half a tick beside the ticks.
	half = tick / 2
)

// TestRandomSequences tells the stories and plays, on every release of Redisson, random sequences of calls twice: on limiter A each call is made by Go or by
// Java, on limiter B by Java. After every step the answers and all keys, of the limiter and of the one that it may be renamed or copied
// to, must be what the protocol says, A's with our differences of its section 7 and B's without. Where A and B differ, the differences
// that make them do so are known by name and counted, and only what these may touch differs; the two limiters are made equal again then,
// the one like the other or the other like the one.
func TestRandomSequences(t *testing.T) {
	first := number(t, "SEQUENCE_SEED", uint64(time.Now().UnixNano()))
	count := number(t, "SEQUENCE_SEEDS", seeds)
	eachRelease(t, func(t *testing.T, r *run) {
		r.stories(t)
		for seed := first; seed < first+count; seed++ {
			r.seed, r.random = seed, rand.New(rand.NewPCG(seed, 0))
			for round := range rounds {
				r.play(t, round)
			}
		}
		r.report(t)
		require.GreaterOrEqual(t, r.steps, int(count)*rounds*stepsPerRound*2/3, "too few steps for a proof")
		denied, granted := r.answers["false"], r.answers["true"]+r.answers[calls.Done]
		require.Greater(t, 3*granted, 2*denied, "most acquires must not be trivial denials")
		require.Greater(t, 2*r.sharers, 3*r.sharedCalls, "callers of one moment must share calls")
	})
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, variable)
	return n
}

// eachRelease runs a test against every release of Redisson that is to be tested.
func eachRelease(t *testing.T, test func(t *testing.T, r *run)) {
	server := servers.Single(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	serverVersion, err := servers.VersionOf(t.Context(), redis)
	require.NoError(t, err)
	for _, version := range oracle.VersionsToTest() {
		t.Run(version, func(t *testing.T) {
			java := oracle.Start(t, version, oracle.Single(server.Addr()))
			id := rratelimiter.WithClientID(uuid.MustParse(java.ID()))
			golang := rratelimiter.New(redis, id)
			// The server has to know the script before calls are held back: one that it does not know is sent twice.
			_, err := golang.Limiter("none").TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, rratelimiter.ErrNotInitialized)
			test(t, &run{
				version: version, server: serverVersion, redis: redis, java: java, id: id, golang: golang,
				refused: make(map[calls.Op]int),
				lacks:   make(map[calls.Op]int), made: make(map[calls.Op]int), answers: make(map[calls.Reply]int),
			})
		})
	}
}

// run is the test of one release.
type run struct {
	version string
	server  servers.Version
	redis   rueidis.Client
	java    *oracle.Redisson
	golang  *rratelimiter.Client
	id      rratelimiter.Option // golang's
	seed    uint64
	random  *rand.Rand

	steps, byGo int
	made        map[calls.Op]int
	answers     map[calls.Reply]int // of acquires
	met         [endOfDifferences]int
	lacks       map[calls.Op]int
	refused     map[calls.Op]int // since the server lacks what the call needs
	events      int
	sharers     int // requests that were made at one moment with others
	sharedCalls int // the calls that carried them
	stacks      []byte
}

// twins are the limiters A and B of one round, each with the one of another name that it may be renamed or copied to.
type twins struct {
	a, b     twin
	big      bool // a rate above 2^32
	client   bool // most rates are PER_CLIENT
	history  []string
	expiries int
	next     []calls.Call // to be made before others
}

// twin is a limiter and the one of another name, in turn: which of them is called changes.
type twin struct {
	name, other string
	id          string
}

func (w twin) keys() state.Keys      { return state.KeysOf(w.name, w.id) }
func (w twin) otherKeys() state.Keys { return state.KeysOf(w.other, w.id) }

func (tw *twins) each(do func(w *twin)) {
	do(&tw.a)
	do(&tw.b)
}

// swap makes the limiters of the other names those that are called.
func (tw *twins) swap() {
	tw.each(func(w *twin) { w.name, w.other = w.other, w.name })
	tw.tell("the other name")
}

func (r *run) twins(title string) *twins {
	of := func(name string) twin {
		name = fmt.Sprintf("%s/%d/%s/%s", r.version, r.seed, title, name)
		return twin{name: name, other: name + "2", id: r.java.ID()}
	}
	return &twins{a: of("a"), b: of("b")}
}

func (r *run) play(t *testing.T, round int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tw := r.twins(strconv.Itoa(round))
	tw.big, tw.client = round%10 >= 8, round%2 == 1
	tw.next = []calls.Call{r.rate(calls.TrySetRate, tw)}
	for range stepsPerRound {
		later := tick
		if r.chance(12) {
			later += time.Duration(r.random.IntN(30)) * tick
		}
		r.passes(ctx, t, tw, later)
		if r.chance(5) {
			r.happens(ctx, t, tw, events[r.random.IntN(len(events))])
		}
		if r.chance(4) {
			tw.swap()
		}
		before := r.read(ctx, t, tw.a)
		deed := r.choose(tw, before)
		r.step(ctx, t, tw, before, deed, len(deed) > 1 || r.chance(60))
	}
}

// passes lets time pass for both limiters.
func (r *run) passes(ctx context.Context, t *testing.T, tw *twins, later time.Duration) {
	t.Helper()
	tw.each(func(w *twin) {
		for _, k := range []state.Keys{w.keys(), w.otherKeys()} {
			require.NoError(t, state.Age(ctx, r.redis, k, later), tw)
		}
	})
	tw.tell("%v later", later)
}

// read reads a limiter and that of the other name.
func (r *run) read(ctx context.Context, t *testing.T, w twin) outcome {
	t.Helper()
	main, err := state.Read(ctx, r.redis, w.keys())
	require.NoError(t, err)
	other, err := state.Read(ctx, r.redis, w.otherKeys())
	require.NoError(t, err)
	return outcome{main: main, other: other}
}

// step makes one call, or several requests of callers that share calls, on both limiters and compares.
func (r *run) step(ctx context.Context, t *testing.T, tw *twins, before outcome, deed []calls.Call, byGo bool) {
	t.Helper()
	seed := fmt.Sprintf("again: SEQUENCE_SEED=%d SEQUENCE_SEEDS=1 REDISSON_VERSIONS=%s go test -race -count=1 -run %s ./compatibility/sequences\n",
		r.seed, r.version, strings.Split(t.Name(), "/")[0])
	if len(deed) == 1 {
		call, sides := deed[0], map[calls.Side]state.Keys{
			calls.Go(r.golang.Limiter(tw.a.name)): tw.a.keys(), calls.Java(r.java.Limiter(tw.b.name)): tw.b.keys(),
		}
		call.NewName = tw.a.other
		if !served(ctx, t, r.redis, r.server, call, sides) {
			r.refused[call.Op]++
			tw.tell("refused by the server: %v", call)
			return
		}
	}
	var batches []int
	repliesB, err := one(ctx, calls.Java(r.java.Limiter(tw.b.name)), tw.b, deed)
	if errors.Is(err, oracle.ErrUnsupported) {
		r.lacks[deed[0].Op]++
		return
	}
	require.NoError(t, err, tw)
	atB, by := time.Now(), calls.Java(r.java.Limiter(tw.a.name))
	if byGo {
		by = calls.Go(rratelimiter.New(r.redis, r.id).Limiter(tw.a.name)) // whose first call counts drift
	}
	var repliesA []calls.Reply
	if len(deed) > 1 {
		repliesA, batches, err = r.share(ctx, t, tw.a.name, deed)
	} else {
		repliesA, err = one(ctx, by, tw.a, deed)
	}
	require.NoError(t, err, tw)
	atA := time.Now()
	if byGo && !calls.AtLeast(r.version, "3.17.0") {
		require.NoError(t, state.Rewrite(ctx, r.redis, tw.a.keys()))
	}
	a, b := r.read(ctx, t, tw.a), r.read(ctx, t, tw.b)
	a.replies, b.replies = repliesA, repliesB
	r.steps++
	for i, call := range deed {
		r.made[call.Op]++
		switch call.Op {
		case calls.TryAcquire, calls.TryAcquireUntil, calls.Acquire, calls.Take:
			r.answers[repliesB[i]]++
		}
	}
	tw.tell("%v: %v = %v, Java alone %v; %v", by, deed, repliesA, repliesB, a.main)
	if a.other.Config != nil {
		tw.tell("  and of the other name: %v", a.other)
	}
	if len(deed) > 1 {
		a.merge(atA)
		b.merge(atB)
	}

	ours, theirs := lawOf(r.version)
	r.requireLaw(t, "Java alone", meet(deed, batches, before, atB).play(theirs), b, seed, tw)
	m := meet(deed, batches, before, atA)
	lawA := theirs
	if byGo {
		r.byGo++
		lawA = ours
	}
	r.requireLaw(t, by.String(), m.play(lawA), a, seed, tw)
	differ := a.without(r.version).fields(b.without(r.version), m.perClient)
	if len(differ) > 0 {
		r.explain(t, m, differ, seed, tw)
	}
	if from, to := tw.a, tw.b; len(differ) > 0 || len(deed) > 1 {
		if r.chance(50) {
			from, to = to, from
		}
		require.NoError(t, state.Copy(ctx, r.redis, from.keys(), to.keys()))
		require.NoError(t, state.Copy(ctx, r.redis, from.otherKeys(), to.otherKeys()))
	}
}

// one makes calls one by one.
func one(ctx context.Context, by calls.Side, w twin, deed []calls.Call) (replies []calls.Reply, err error) {
	for _, call := range deed {
		switch call.Op {
		case calls.Rename, calls.RenameNX, calls.Copy, calls.CopyAndReplace:
			call.NewName = w.other
		}
		reply, err := by.Do(ctx, call)
		if err != nil {
			return nil, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// requireLaw requires that a call came to what a law says, to the last field.
func (r *run) requireLaw(t *testing.T, who string, want, got outcome, seed string, tw *twins) {
	t.Helper()
	want, got = want.without(r.version), got.without(r.version)
	require.Equal(t, want.replies, got.replies, "%s does not answer as the protocol says\n%s%v", who, seed, tw)
	for _, text := range want.fields(got, false) {
		require.Empty(t, text, "%s does not leave what the protocol says: that, and what was left\n%s%v", who, seed, tw)
	}
}

// explain requires that the differences which a call met, and no others, are what A and B differ in.
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

// String is what happened to the limiters of the round.
func (tw *twins) String() string {
	const enough = 25
	return "what happened:\n" + strings.Join(tw.history[max(0, len(tw.history)-enough):], "\n")
}

func (tw *twins) tell(format string, args ...any) {
	tw.history = append(tw.history, fmt.Sprintf(format, args...))
}

func (r *run) chance(percent int) bool { return r.random.IntN(100) < percent }

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
