package benchmarks

import (
	"context"
	"errors"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// Each call gets a context of the kind that its load names.
func TestCaller_ContextKind_GetsItsContext(t *testing.T) {
	for kind, ends := range map[contextKind]bool{endless: false, deadline: true, cancellable: true} {
		var calls []context.Context
		l := granting(1)
		l.context = kind
		c := newCaller(0, l)
		for range 2 {
			c.call(t.Context(), func(ctx context.Context, _, _ int, _ int64) (bool, error) {
				require.NoError(t, ctx.Err())
				_, hasTime := ctx.Deadline()
				require.Equal(t, kind == deadline, hasTime)
				calls = append(calls, ctx)
				return true, nil
			}, l, true)
		}
		require.Equal(t, ends, calls[0] != calls[1], "one for each call")
		require.Equal(t, ends, calls[0].Err() != nil, "cancelled after its call")
	}
}

// With many callers one call in timedOf is timed, but every call counts.
func TestCaller_ManyCallers_TimesSomeCalls(t *testing.T) {
	const calls = 10 * timedOf
	take := func(context.Context, int, int, int64) (bool, error) { return true, nil }
	for callers, timed := range map[int]int{manyCallers - 1: calls, manyCallers: calls / timedOf} {
		c := newCaller(3, granting(callers))
		for range calls {
			c.call(t.Context(), take, granting(callers), true)
		}
		require.EqualValues(t, calls, c.decisions)
		require.EqualValues(t, calls, c.allPermits)
		require.EqualValues(t, timed, c.latency.TotalCount())
	}
}

// One call with a context that can end puts a connection of rueidis into pipelining.
func TestExhaust_Context_CannotEnd(t *testing.T) {
	calls := 0
	permits := exhaust(t, func(ctx context.Context, _, _ int, _ int64) (bool, error) {
		require.Nil(t, ctx.Done())
		calls++
		return calls <= 3, nil
	}, denying(1))
	require.EqualValues(t, 3, permits)
	require.Equal(t, 4, calls)
}

func TestRefused_UnexpectedAnswers_AreNamed(t *testing.T) {
	for _, c := range []struct {
		load    load
		tally   tally
		refused string
	}{
		{granting(1), tally{decisions: 10, granted: 9, failed: 1, err: errors.New("no")}, "10% of the calls failed: no"},
		{granting(1), tally{decisions: 10, granted: 9}, "10% of the calls were denied"},
		{denying(1), tally{decisions: 10, granted: 1}, "10% of the calls were granted"},
		{granting(16), tally{decisions: 10, granted: 10}, "10 decisions are too few"},
		{granting(1), tally{decisions: 10, granted: 10}, ""},
		{denying(1), tally{decisions: 10}, ""},
	} {
		require.Equal(t, c.refused, c.tally.refused(c.load))
	}
}

func TestAccount_LostOrDoubledPermits_AreNamed(t *testing.T) {
	redis := newServer(t, servers.Single(t).Addr())
	l := load{names: []string{"one"}, limit: limit{10, time.Hour}}
	account := func(free int64, permits ...uint32) string {
		redis.clear(t)
		var grants []preparedGrant
		for _, n := range permits {
			grants = append(grants, preparedGrant{time.Now(), n})
		}
		redis.prepare(t, "one", free, grants)
		return redis.account(t, l, 7)
	}
	require.Empty(t, account(3, 5, 2))
	require.Contains(t, account(4, 5, 2), "7 permits of one are taken and 4 free")
	require.Contains(t, account(4, 6), "callers were granted 7 permits, Redis has 6")
	require.Contains(t, account(0, 11), "11 permits of one are in one window")
}

func TestCheckOrder_LateCaller_HasOvertaken(t *testing.T) {
	start := time.Now()
	at := func(ms ...int) (times []time.Time) {
		for _, n := range ms {
			times = append(times, start.Add(time.Duration(n)*time.Millisecond))
		}
		return times
	}
	for _, c := range []struct {
		name                string
		first               []time.Time
		overtaken, unserved int
	}{
		{"woken by the same call in any order", at(0, 10, 5), 0, 0},
		{"overtaken", at(50, 10, 5), 1, 0},
		{"unserved", []time.Time{start, {}}, 1, 1},
	} {
		overtaken, unserved, err := checkOrder(c.first, time.Second, 3)
		require.NoError(t, err, c.name)
		require.Equal(t, []int{c.overtaken, c.unserved}, []int{overtaken, unserved}, c.name)
	}
	_, _, err := checkOrder(at(0, 0), time.Second/2, 51)
	require.ErrorContains(t, err, "the rate allows 50")
}

// Every library but Redisson works with its settings, and none fails with several callers. Policies
// are not measured denying: Smooth grants one request in advance.
func TestLibraries_EachSetting_GrantsAndDenies(t *testing.T) {
	redis := newServer(t, servers.Single(t).Addr())
	for _, lib := range slices.Concat(ourLibraries, policyLibraries, peers) {
		for answer, l := range map[string]load{"grants": granting(12), "denies": denying(12)} {
			if l.denied && slices.Contains(allPolicies(), lib.key) {
				continue
			}
			t.Run(lib.key+" "+answer, func(t *testing.T) {
				l.addr = redis.addr
				redis.clear(t)
				s := lib.open(t, redis, l)
				if l.denied {
					exhaust(t, s.take, l)
				}
				var running sync.WaitGroup
				for caller := range l.callers {
					running.Go(func() {
						granted, err := s.take(context.Background(), caller, 0, 1)
						assert.NoError(t, err)
						assert.Equal(t, !l.denied, granted)
					})
				}
				running.Wait()
			})
		}
	}
}

func TestMeasure_Figures_AreReported(t *testing.T) {
	benchTime := flag.Lookup("test.benchtime").Value
	before := benchTime.String()
	require.NoError(t, benchTime.Set("20ms"))
	defer func() { require.NoError(t, benchTime.Set(before)) }()
	redis := newServer(t, servers.Single(t).Addr())
	result := testing.Benchmark(func(b *testing.B) { measure(b, redis, find(b, ours), granting(1)) })
	for _, unit := range []string{"ns/op", "p50-ns", "p99-ns", "server-ns/op", "client-ns/op", "mallocs/op"} {
		require.Positive(t, result.Extra[unit], unit)
	}
	require.InDelta(t, 1, result.Extra["calls/op"], 0.1)
}

// The slow link is what makes its benchmarks slow.
func TestLink_RoundTrip_IsDelayed(t *testing.T) {
	b := load{}.through(t, servers.Single(t).Addr())
	require.GreaterOrEqual(t, b.ping, linkDelay)
}
