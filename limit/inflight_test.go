package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// placesOf returns the places of a batch, of the requests that were granted, and of the only InFlight.
func placesOf(l *Limiter, batch *engine.Batch) (all []string) {
	p, at := l.protocol.members[l.protocol.plan.holds[0].index].policy.(InFlight), l.protocol.plan.holds[0]
	for i, r := range batch.Requests {
		if r.Allowed {
			all = append(all, placeOf(batch.Args[at.id], i, r.Granted, p.Lease))
		}
	}
	return all
}

// hold takes permits, and returns the place.
func (f *clocked) hold(l *Limiter, permits int64) string {
	f.Helper()
	all := placesOf(l, f.ask(l, engine.Ask{Permits: permits}))
	require.Len(f, all, 1)
	return all[0]
}

func callsOf(l *Limiter) *places {
	return &places{l.protocol.plan, l.protocol.members[l.protocol.plan.holds[0].index]}
}

// giveBack returns places, and reports the free permits.
func (f *clocked) giveBack(l *Limiter, places ...string) int64 {
	f.Helper()
	require.NoError(f, callsOf(l).Return(f.Context(), places))
	return redistest.Peek(f, l)[l.protocol.plan.holds[0].index].Remaining
}

// TestInFlight_LeasesWithOneEnd_AreReturnedByTheirGrants: a deployment has changed the lease.
func TestInFlight_LeasesWithOneEnd_AreReturnedByTheirGrants(t *testing.T) {
	f := newClocked(t)
	long := New(f.client, "name", InFlight{9, 2 * time.Second, false})
	short := New(f.client, "name", InFlight{9, time.Second, false})
	a := f.hold(long, 3)
	f.advance(time.Second)
	b := f.hold(short, 2)
	assert.EqualValues(t, 6, f.giveBack(long, b))
	assert.EqualValues(t, 6, f.giveBack(long, b))
	assert.EqualValues(t, 9, f.giveBack(short, a))
}

// TestInFlight_SharedCall_EachRequestHasAPlace: to return one again and again returns none of another.
func TestInFlight_SharedCall_EachRequestHasAPlace(t *testing.T) {
	f, l := clockedLimiter(t, FixedWindow{1000, time.Hour, false}, InFlight{8, time.Minute, false})
	batch := f.ask(l, engine.Ask{Permits: 1}, engine.Ask{Permits: 1}, engine.Ask{Permits: 9}, engine.Ask{Permits: 3},
		engine.Ask{Permits: 1, UpTo: 7}, engine.Ask{Permits: 1})
	all := placesOf(l, batch)
	require.Len(t, all, 4)
	assert.Zero(t, redistest.Peek(t, l)[1].Remaining)
	for range 3 {
		assert.EqualValues(t, 1, f.giveBack(l, all[1]))
	}
	assert.EqualValues(t, 4, f.giveBack(l, all[2]))
	assert.EqualValues(t, 7, f.giveBack(l, all[3]), "the rest that was free")
	assert.EqualValues(t, 8, f.giveBack(l, all[0]))
	assert.EqualValues(t, 992, redistest.Peek(t, l)[0].Remaining, "the rate stays")
	all = placesOf(l, f.ask(l, slices.Repeat([]engine.Ask{{Permits: 1}}, engine.MaxRequests)...))
	require.Len(t, all, 8)
	assert.EqualValues(t, 8, f.giveBack(l, all...))
}

// TestInFlight_ForeignState_IsAStateError, and stays as it is.
func TestInFlight_ForeignState_IsAStateError(t *testing.T) {
	for _, state := range []map[string]float64{
		{"x": 1}, {"clock": -5}, {"held": -5}, {"clock": -5, "other": -3}, {"clock": 5, "held": -5}, {"clock": -5, "held": 5},
		{"clock": -5, "held": -3, "x": 1}, {"clock": -5, "held": -3, "a 0 1 9": 9, "a 0 x 9": 10},
	} {
		f, l := clockedLimiter(t, InFlight{5, time.Hour, false})
		for member, score := range state {
			require.NoError(t, redistest.Err(f.redis.ZAdd(l.protocol.keys[0], score, member)))
		}
		before := f.redis.Dump()
		var stateErr *rratelimiter.StateError
		require.ErrorAs(t, redistest.Err(l.Take(t.Context(), 1)), &stateErr, "%v", state)
		require.ErrorAs(t, callsOf(l).Return(t.Context(), []string{"a 0 1 9"}), &stateErr, "%v", state)
		_, err := callsOf(l).Renew(t.Context(), []string{"a 0 1 9"})
		require.ErrorAs(t, err, &stateErr, "%v", state)
		assert.Equal(t, before, f.redis.Dump())
	}
}

func TestInFlight_InvalidFields_AreErrors(t *testing.T) {
	for _, p := range []InFlight{{0, time.Second, false}, {1_000_001, time.Second, false}, {1, 0, false},
		{1, time.Microsecond, false}, {-1, time.Second, false}, {1, 99 * time.Millisecond, true}} {
		require.ErrorIs(t, Validate(p), rratelimiter.ErrInvalidRate, "%+v", p)
	}
	require.NoError(t, Validate(InFlight{1_000_000, time.Millisecond, false}))
	require.Error(t, Validate(InFlight{1, time.Second, false}, InFlight{2, time.Minute, false}), "they share a key")
	l := New(newClocked(t).client, "name", InFlight{5, time.Second, false})
	require.ErrorIs(t, redistest.Err(l.Take(t.Context(), 6)), rratelimiter.ErrPermitsExceedRate)
}

// testPlace is a place of TestInFlight_ReturnsRenewalsAndClocks_AreExact.
type testPlace struct {
	member       string
	end, permits int64 // by the latest clock, milliseconds
}

// TestInFlight_ReturnsRenewalsAndClocks_AreExact: the clocks of clients differ and jump, and the lease and
// the permits change. Requests share calls, and their places are renewed and returned, more than once and too late.
// After each call exactly those permits are held whose lease has not ended by the latest clock.
func TestInFlight_ReturnsRenewalsAndClocks_AreExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Deep(4, 200)) {
		f, random := newClocked(t), rand.New(rand.NewPCG(seed, 0))
		f.back = true
		policies := []InFlight{{20, time.Second, true}, {20, 3 * time.Second, false}, {12, time.Second, false}}
		var held, gone []*testPlace
		var clock, server, log = int64(0), int64(begin), []string{}
		for step := range 300 {
			server += random.Int64N(1 + random.Int64N(300_000))
			offset := []int64{0, 200_000, -100_000, random.Int64N(4e6) - 2e6}[min(3, random.IntN(20))]
			f.setClock(server + offset)
			p := policies[max(0, random.IntN(30)-27)]
			l := New(f.client, "name", p)
			if held == nil {
				clock = 0 // of a state that has gone
			}
			at := max(clock, f.now/1000)
			live, sum := []*testPlace{}, int64(0)
			for _, g := range held {
				if g.end > at {
					live, sum = append(live, g), sum+g.permits
				}
			}
			about := fmt.Sprintf("seed %d, step %d after %s", seed, step, strings.Join(log[max(0, len(log)-9):], "; "))
			some := slices.Concat(held, gone)
			random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			some = some[:min(len(some), 1+random.IntN(4))]
			var members []string
			for _, g := range some {
				members = append(members, g.member)
			}
			what := ""
			switch kind := random.IntN(40); {
			case kind == 0:
				what = "Reset"
				require.NoError(t, l.Reset(t.Context()))
				gone, held = append(gone, held...), nil
			case kind < 14:
				what = fmt.Sprint("return ", members)
				require.NoError(t, callsOf(l).Return(t.Context(), members))
				left := slices.DeleteFunc(live, func(g *testPlace) bool { return slices.Contains(some, g) })
				if gone = append(gone, some...); len(left) < len(held) {
					held, clock = left, at
				}
			case kind < 20:
				what = fmt.Sprint("renew ", members)
				ended, err := callsOf(l).Renew(t.Context(), members)
				require.NoError(t, err)
				for i, g := range some {
					require.Equal(t, !slices.Contains(live, g), slices.Contains(ended, i), "%s; %s", about, what)
					if slices.Contains(live, g) {
						g.end, clock = max(g.end, at+p.Lease.Milliseconds()), at
					}
				}
			default:
				asks := make([]engine.Ask, 1+random.IntN(3))
				for i := range asks {
					asks[i].Permits = 1 + random.Int64N(5)
				}
				what = fmt.Sprint("Take ", asks)
				batch := f.ask(l, asks...)
				places := placesOf(l, batch)
				for i, ask := range asks {
					require.Equal(t, sum+ask.Permits <= p.Permits, batch.Requests[i].Allowed, "%s: %s of %d", about, what, sum)
					if batch.Requests[i].Allowed {
						live = append(live, &testPlace{places[0], at + p.Lease.Milliseconds(), ask.Permits})
						sum, places = sum+ask.Permits, places[1:]
						held, clock = live, at
					}
				}
			}
			if len(held) == 0 {
				held = nil
			}
			log = append(log, fmt.Sprintf("%s at %d", what, f.now-begin))
			sum = 0
			for _, g := range held {
				if g.end > max(clock, f.now/1000) {
					sum += g.permits
				}
			}
			want := max(0, policies[0].Permits-sum)
			require.Equal(t, want, redistest.Peek(t, New(f.client, "name", policies[0]))[0].Remaining, "%s; %s", about, what)
		}
	}
}

// TestInFlight_ManyGrants_AreExact: more leases end than a page has.
func TestInFlight_ManyGrants_AreExact(t *testing.T) {
	f, l := clockedLimiter(t, InFlight{900, time.Minute, false})
	f.set(begin - begin%1000)
	var all []string
	for range 600 {
		all = append(all, f.hold(l, 1))
	}
	f.advance(time.Second)
	large := f.hold(l, 300)
	assert.False(t, redistest.Result(t, l.Take, 1).Allowed)
	assert.EqualValues(t, 300, f.giveBack(l, all[10:310]...))
	f.advance(59 * time.Second)
	assert.True(t, redistest.Result(t, l.Take, 600).Allowed, "the leases of 300 grants have ended")
	assert.False(t, redistest.Result(t, l.Take, 1).Allowed)
	assert.EqualValues(t, 300, f.giveBack(l, large))
}

// TestInFlight_ScriptStops_GrantsNoMore: a command is not permitted, at any point of a script.
func TestInFlight_ScriptStops_GrantsNoMore(t *testing.T) {
	for _, command := range []string{"ZADD", "ZREM", "PEXPIRE", "UNLINK", "PTTL"} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := New(f.client, "name", InFlight{10, time.Minute, false})
			require.True(t, redistest.Result(t, l.TryAcquire, 3))
			time.Sleep(time.Second)
			require.True(t, redistest.Result(t, l.TryAcquire, 6))
			time.Sleep(59 * time.Second) // the first lease has ended
			stop := stopAt(command, acquireCall, l)
			for range 3 {
				_ = stop(f)
			}
			free := redistest.Peek(t, l)[0].Remaining
			assert.LessOrEqual(t, free, int64(4), command)
			assert.False(t, redistest.Result(t, l.TryAcquire, free+1), command)
			assert.True(t, free == 0 || redistest.Result(t, l.TryAcquire, free), command)
			time.Sleep(time.Minute)
			assert.True(t, redistest.Result(t, l.TryAcquire, 10), "%s: it heals", command)
		})
	}
}

// stopAt returns a call whose script is stopped at a command.
func stopAt(command string, c call, l *Limiter) func(f *fixture) error {
	text := strings.ReplaceAll(scriptText(c, l.protocol.members), "call('"+command+"'", "error('stopped')('"+command+"'")
	return func(f *fixture) error {
		p, now := l.protocol.plan, time.Now()
		args := callArguments(p.fixed(p.timed, p.epochs, []string{"1"}, now), l.protocol.members, now)
		eval := f.Conn.B().Eval().Script(text).Numkeys(1).Key(l.protocol.keys...).Arg(args...).Build()
		return f.Conn.Do(f.Context(), eval).Error()
	}
}

// TestInFlight_Waiters_AreServedInOrder: a place that this Client returns at once, one of another Client
// within 100 ms.
func TestInFlight_Waiters_AreServedInOrder(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := InFlight{2, time.Minute, false}
		here, there := New(f.client, "name", p), New(rratelimiter.New(f.Conn), "name", p)
		var own, others Taken
		takeAll(t, &own, 1, here)
		takeAll(t, &others, 1, there)
		served, start := make(chan string, 9), time.Now()
		for i := range 4 {
			go func() {
				assert.NoError(t, here.Acquire(t.Context(), 1))
				served <- fmt.Sprintf("%d at %v", i, time.Since(start).Round(100*time.Millisecond))
			}()
			synctest.Wait()
		}
		time.Sleep(2050 * time.Millisecond)
		start = time.Now()
		require.NoError(t, own.Settle(t.Context(), 1))
		synctest.Wait()
		assert.Equal(t, "0 at 0s", <-served)
		require.NoError(t, others.Settle(t.Context(), 1))
		synctest.Wait()
		assert.Empty(t, served)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "1 at 100ms", <-served)
		time.Sleep(time.Minute - 2150*time.Millisecond)
		synctest.Wait()
		assert.Empty(t, served)
		time.Sleep(2200 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, served, 2, "the leases have ended")
	})
}

// TestInFlight_ManyWaiters_AskTenTimesASecond: also while one after another gives up. No wait ends before
// its deadline.
func TestInFlight_ManyWaiters_AskTenTimesASecond(t *testing.T) {
	for name, opts := range map[string][]rratelimiter.Option{
		"": nil, "denial cache": {rratelimiter.WithDenialCache(time.Second)},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(rratelimiter.New(f.Conn, opts...), "name", InFlight{3, time.Hour, false})
			require.True(t, redistest.Result(t, l.TryAcquire, 3))
			var all sync.WaitGroup
			for i := range 500 {
				all.Go(func() {
					start, timeout := time.Now(), 5*time.Second+time.Duration(i)*10*time.Millisecond
					assert.False(t, tryWithin(t, l, 1, timeout))
					assert.Equal(t, timeout, time.Since(start))
				})
			}
			synctest.Wait()
			before := f.Scripts.Load()
			time.Sleep(10 * time.Second)
			all.Wait()
			assert.LessOrEqual(t, f.Scripts.Load()-before, int64(101))
			assert.GreaterOrEqual(t, f.Scripts.Load()-before, int64(90))
		})
	}
}

// TestInFlight_DenialCache_AsksRedis: a place may come back at any time.
func TestInFlight_DenialCache_AsksRedis(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		client := rratelimiter.New(f.Conn, rratelimiter.WithDenialCache(time.Hour), rratelimiter.WithPrefetch(time.Second))
		l := New(client, "name", FixedWindow{9, time.Hour, false}, InFlight{5, time.Hour, false})
		var taken Taken
		takeAll(t, &taken, 5, New(f.client, "name", l.Policies()...))
		require.False(t, redistest.Result(t, l.TryAcquire, 1))
		require.NoError(t, taken.Settle(t.Context(), 5))
		assert.True(t, redistest.Result(t, l.TryAcquire, 1))
	})
}

// TestInFlight_ShortWaits_AskNoMoreOften: beside callers that wait for longer.
func TestInFlight_ShortWaits_AskNoMoreOften(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		90 * time.Millisecond, 150 * time.Millisecond} {
		withRedis(t, func(t *testing.T, f *fixture) {
			p := InFlight{3, time.Hour, false}
			l, other := New(f.client, "name", p), New(rratelimiter.New(f.Conn), "name", p)
			require.True(t, redistest.Result(t, other.TryAcquire, 3))
			var all sync.WaitGroup
			all.Go(func() { assert.False(t, tryWithin(t, l, 2, 10*time.Second)) })
			synctest.Wait()
			before, start, granted := f.Scripts.Load(), time.Now(), 0
			for i := 0; time.Since(start) < 9*time.Second; i++ {
				all.Go(func() {
					if start := time.Now(); tryWithin(t, l, 3, timeout) {
						granted++
					} else {
						assert.Equal(t, timeout, time.Since(start))
					}
				})
				time.Sleep(7 * time.Millisecond)
			}
			all.Wait()
			assert.LessOrEqual(t, f.Scripts.Load()-before, int64(100), "%v", timeout)
			assert.Zero(t, granted, "they are behind another")
		})
	}
}
