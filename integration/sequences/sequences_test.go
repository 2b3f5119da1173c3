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
	"github.com/rratelimiter/rratelimiter/integration/calls"
	"github.com/rratelimiter/rratelimiter/integration/oracle"
	"github.com/rratelimiter/rratelimiter/integration/servers"
	"github.com/rratelimiter/rratelimiter/integration/state"
)

const (
	rounds        = 60 // limiters, in turn OVERALL and PER_CLIENT
	stepsPerRound = 50

	// tick passes before every step, so that no two grants are made at the same moment and none leaves the window because the machine
	// was slow: compared with it, the real time that a round takes is nothing.
	tick  = 10 * time.Minute
	slack = 4 * time.Minute

	// The intervals and times to live end half a tick beside the ticks.
	half = tick / 2
)

// TestRandomSequences plays, on every release of Redisson, random sequences of calls twice: on limiter A each call is made by Go or by
// Java, on limiter B by Java. Answers and all five keys must be the same after every step, but for the differences of protocol
// section 7, each recognised by name and counted; after one the two limiters are made equal again, the one like the other or the other
// like the one.
func TestRandomSequences(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEQUENCE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "SEQUENCE_SEED")
	}
	server := servers.Single(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	serverVersion, err := servers.VersionOf(t.Context(), redis)
	require.NoError(t, err)
	for _, version := range oracle.VersionsToTest() {
		t.Run(version, func(t *testing.T) {
			t.Logf("seed %d; again: SEQUENCE_SEED=%d REDISSON_VERSIONS=%s go test -race -count=1 -run TestRandomSequences ./sequences",
				seed, seed, version)
			java := oracle.Start(t, version, oracle.Single(server.Addr()))
			r := &run{
				version: version, server: serverVersion, redis: redis, java: java, refused: make(map[calls.Op]int),
				golang: rratelimiter.New(redis, rratelimiter.WithClientID(uuid.MustParse(java.ID()))),
				random: rand.New(rand.NewPCG(seed, 0)),
				met:    make(map[string]int), lacks: make(map[calls.Op]int), made: make(map[calls.Op]int), answers: make(map[calls.Reply]int),
			}
			for round := range rounds {
				r.play(t, round)
			}
			r.report(t)
			require.GreaterOrEqual(t, r.steps, 2000, "too few steps for a proof")
			denied, granted := r.answers["false"], r.answers["true"]
			require.Greater(t, granted, denied, "most acquires must not be trivial denials")
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
	random  *rand.Rand

	steps, byGo int
	made        map[calls.Op]int
	answers     map[calls.Reply]int // of acquires
	met         map[string]int      // differences, by name
	lacks       map[calls.Op]int
	refused     map[calls.Op]int // since the server lacks what the call needs
	events      int
}

// twins are the limiters A and B of one round, and who calls them.
type twins struct {
	a, b     state.Keys
	goA      calls.Side
	javaA    calls.Side
	javaB    calls.Side
	big      bool // a rate above 2^32
	history  []string
	expiries int
	nextCall *calls.Call
}

func (r *run) play(t *testing.T, round int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	nameA, nameB := fmt.Sprintf("%s/%d/a", r.version, round), fmt.Sprintf("%s/%d/b", r.version, round)
	tw := &twins{
		a: state.KeysOf(nameA, r.java.ID()), b: state.KeysOf(nameB, r.java.ID()),
		goA: calls.Go(r.golang.Limiter(nameA)), javaA: calls.Java(r.java.Limiter(nameA)), javaB: calls.Java(r.java.Limiter(nameB)),
		big: round%10 >= 8,
	}
	client := round%2 == 1
	first := r.rate(calls.TrySetRate, tw, client)
	tw.nextCall = &first
	for range stepsPerRound {
		r.step(ctx, t, tw, client)
	}
}

// step makes one call on both limiters and compares.
func (r *run) step(ctx context.Context, t *testing.T, tw *twins, client bool) {
	t.Helper()
	later := tick
	if r.chance(12) {
		later += time.Duration(r.random.IntN(30)) * tick
	}
	r.both(t, tw, func(k state.Keys) error { return state.Age(ctx, r.redis, k, later) })
	tw.tell("%v later", later)
	if r.chance(5) {
		r.happens(ctx, t, tw)
	}
	before, err := state.Read(ctx, r.redis, tw.a)
	require.NoError(t, err)
	call := r.choose(tw, before, client)

	if !served(ctx, t, r.redis, r.server, call, map[calls.Side]state.Keys{tw.goA: tw.a, tw.javaB: tw.b}) {
		r.refused[call.Op]++
		tw.tell("refused by the server: %v", call)
		return
	}
	replyB, err := tw.javaB.Do(ctx, call)
	if errors.Is(err, oracle.ErrUnsupported) {
		r.lacks[call.Op]++
		return
	}
	require.NoError(t, err, tw)
	by := tw.javaA
	if r.chance(60) {
		by = tw.goA
	}
	replyA, err := by.Do(ctx, call)
	require.NoError(t, err, tw)
	if by == tw.goA && !calls.AtLeast(r.version, "3.17.0") {
		require.NoError(t, state.Rewrite(ctx, r.redis, tw.a))
	}
	a, err := state.Read(ctx, r.redis, tw.a)
	require.NoError(t, err)
	b, err := state.Read(ctx, r.redis, tw.b)
	require.NoError(t, err)
	r.steps++
	r.made[call.Op]++
	if call.Op == calls.TryAcquire || call.Op == calls.TryAcquireUntil || call.Op == calls.Acquire {
		r.answers[replyB]++
	}
	tw.tell("%v: %v = %s, Java alone %s; %v", by, call, replyA, replyB, a)

	if by == tw.goA {
		r.byGo++
		wantReply, want := expected(before, call, time.Now())
		require.Equal(t, wantReply, replyA, "Go does not answer as the protocol says\n%v", tw)
		require.Empty(t, state.Differences(want, a, slack), "Go does not leave what the protocol says: that, and what it left\n%v", tw)
	}
	// Releases that do not know keepAliveTime do not write it.
	if !calls.AtLeast(r.version, "3.38.0") {
		delete(a.Config, "keepAliveTime")
		delete(b.Config, "keepAliveTime")
	}
	differences := state.Differences(a, b, slack)
	if replyA != replyB {
		differences = append(differences, fmt.Sprintf("answer: %s, and %s", replyA, replyB))
	}
	if len(differences) == 0 {
		return
	}
	text := strings.Join(differences, "\n")
	require.Equal(t, tw.goA, by, "Java differs from Java:\n%s\n%v", text, tw)
	name := recognise(meet(call, before, time.Now().UnixMilli()), r.version)
	require.NotEmpty(t, name, "no difference that is known, in %v\nbefore: %v\n%s\n%v", call, before, text, tw)
	r.met[name]++
	tw.tell("known difference: %s", name)
	from, to := tw.a, tw.b
	if r.chance(50) {
		from, to = to, from
	}
	require.NoError(t, state.Copy(ctx, r.redis, from, to))
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

func (r *run) both(t *testing.T, tw *twins, do func(k state.Keys) error) {
	t.Helper()
	for _, k := range []state.Keys{tw.a, tw.b} {
		require.NoError(t, do(k), tw)
	}
}

// happens lets something befall both limiters that is no call: eviction, another client, an old release.
func (r *run) happens(ctx context.Context, t *testing.T, tw *twins) {
	b := r.redis.B
	events := []struct {
		name    string
		command func(k state.Keys) rueidis.Completed
	}{
		{"the value is evicted", func(k state.Keys) rueidis.Completed {
			return b().Del().Key(k[state.Value], k[state.ClientValue]).Build()
		}},
		{"the permits are evicted", func(k state.Keys) rueidis.Completed {
			return b().Del().Key(k[state.Permits], k[state.ClientPermits]).Build()
		}},
		// Without what time the state has to live: a rate that is set afterwards says nothing of it, and neither side does.
		{"the configuration is evicted", func(k state.Keys) rueidis.Completed {
			return b().Eval().Script(`redis.call('DEL', KEYS[1]) for i = 2, 5 do redis.call('PERSIST', KEYS[i]) end`).
				Numkeys(5).Key(k[:]...).Build()
		}},
		{"another client sets a lower rate", func(k state.Keys) rueidis.Completed {
			return b().Eval().Script(`if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'rate', '4') end`).
				Numkeys(1).Key(k[state.Config]).Build()
		}},
		{"a release before 3.38 had made the limiter", func(k state.Keys) rueidis.Completed {
			return b().Hdel().Key(k[state.Config]).Field("keepAliveTime").Build()
		}},
	}
	event := events[r.random.IntN(len(events))]
	r.events++
	tw.tell("%s", event.name)
	r.both(t, tw, func(k state.Keys) error {
		err := r.redis.Do(ctx, event.command(k)).Error()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	})
}

// rate is a call that sets a random rate.
func (r *run) rate(op calls.Op, tw *twins, client bool) calls.Call {
	c := calls.Call{Op: op, PerClient: client, Permits: 4 + r.random.Int64N(30), Interval: time.Duration(3+r.random.IntN(60))*tick + half}
	if tw.big {
		c.Permits = 1<<34 + r.random.Int64N(1<<34)
	}
	if calls.AtLeast(r.version, "3.38.0") && r.chance(25) {
		c.KeepAlive = c.Interval + time.Duration(r.random.IntN(20))*tick
	}
	if r.chance(8) {
		c.PerClient = !client
	}
	return c
}

// choose picks the next call, so that it mostly does something.
func (r *run) choose(tw *twins, before state.State, client bool) calls.Call {
	if c := tw.nextCall; c != nil {
		tw.nextCall = nil
		return *c
	}
	v := look(&before)
	if !v.there && r.chance(70) {
		c := r.rate(calls.TrySetRate, tw, client)
		if r.chance(40) {
			c.Op, c.KeepState = calls.SetRateArgs, r.chance(70)
		}
		return c
	}
	copied := &model{State: clone(before), now: time.Now().UnixMilli()}
	free := max(0, copied.count(look(&copied.State)))
	n := int64(1)
	switch {
	case free > 0 && r.chance(85):
		n += r.random.Int64N(max(1, min(free, 1+free*2/3)))
	case v.rate > 0 && r.chance(85):
		n += r.random.Int64N(v.rate)
	case r.chance(60):
		n = v.rate + 1
	default:
		n = -r.random.Int64N(2)
	}
	// No two are the same on one limiter, even after a number of ticks: which of two equal times is greater, the machine's speed says.
	tw.expiries++
	expiry := func(op calls.Op) calls.Call {
		return calls.Call{Op: op, Expiry: time.Duration(5+r.random.IntN(200))*tick + half + time.Duration(tw.expiries)*4*time.Second}
	}
	weighted := []struct {
		weight int
		call   func() calls.Call
	}{
		{46, func() calls.Call { return calls.Call{Op: calls.TryAcquire, Permits: n} }},
		{4, func() calls.Call {
			return calls.Call{Op: calls.TryAcquireUntil, Permits: n, Timeout: 3 * time.Millisecond}
		}},
		{8, func() calls.Call {
			// Only where Java does not wait either, which counts otherwise.
			value, ok := v.pair.Count()
			_, left := v.pair.Taken(time.Now().UnixMilli() - v.interval)
			if n < 1 || n > free || ok && (value+left < n || value+left > v.rate) {
				return calls.Call{Op: calls.TryAcquire, Permits: n}
			}
			return calls.Call{Op: calls.Acquire, Permits: n}
		}},
		{7, func() calls.Call { return calls.Call{Op: calls.AvailablePermits} }},
		{6, func() calls.Call { return calls.Call{Op: calls.Release, Permits: n - 1} }},
		{3, func() calls.Call { return r.rate(calls.TrySetRate, tw, client) }},
		{4, func() calls.Call { return r.rate(calls.SetRate, tw, client) }},
		{4, func() calls.Call {
			c := r.rate(calls.SetRateArgs, tw, client)
			c.KeepState = r.chance(70)
			return c
		}},
		{4, func() calls.Call {
			c := r.rate(calls.UpdateRate, tw, client)
			c.KeepState = r.chance(70)
			return c
		}},
		{2, func() calls.Call { return calls.Call{Op: calls.GetConfig} }},
		{1, func() calls.Call { return calls.Call{Op: calls.Exists} }},
		{1, func() calls.Call { return calls.Call{Op: calls.Delete} }},
		{2, func() calls.Call { return expiry(calls.Expire) }},
		{1, func() calls.Call { return expiry(calls.ExpireIfSet) }},
		{1, func() calls.Call { return expiry(calls.ExpireIfNotSet) }},
		{1, func() calls.Call { return expiry(calls.ExpireIfGreater) }},
		{1, func() calls.Call { return expiry(calls.ExpireIfLess) }},
		{4, func() calls.Call { return calls.Call{Op: calls.ClearExpire} }},
	}
	sum := 0
	for _, w := range weighted {
		sum += w.weight
	}
	pick := r.random.IntN(sum)
	for _, w := range weighted {
		if pick -= w.weight; pick < 0 {
			return w.call()
		}
	}
	panic("unreachable")
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
	for _, op := range calls.Ops {
		if n := r.refused[op]; n > 0 {
			t.Logf("  %v lacks what %s needs: refused %d times", r.server, op, n)
		}
	}
	for _, d := range differences {
		if n := r.met[d.name]; n > 0 {
			t.Logf("  known difference, %4d times: %s", n, d.name)
		}
	}
	var others []string
	for _, d := range differences {
		if r.met[d.name] == 0 {
			others = append(others, d.name)
		}
	}
	slices.Sort(others)
	t.Logf("  not met: %s", strings.Join(others, "; "))
}
