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

func TestInFlight_WorkedExample(t *testing.T) {
	f := newClocked(t)
	l := New(f.client, "name", InFlight{2, 10 * time.Second})
	f.set(begin - begin%1000)
	a := f.take(l, 1)
	f.advance(time.Second)
	b := f.take(l, 1)
	f.advance(time.Second)
	assert.Equal(t, rratelimiter.Decision{Limit: 2, RetryAfter: time.Second, ResetAfter: 9 * time.Second},
		redistest.Result(t, l.Take, 1))
	f.advance(time.Second)
	f.refund(l, a, 1)
	c := f.take(l, 1)
	f.advance(7700 * time.Millisecond)
	denied := redistest.Result(t, l.Take, 1)
	assert.Equal(t, 300*time.Millisecond, denied.RetryAfter, "a lease ends earlier")
	f.advance(300 * time.Millisecond)
	assert.EqualValues(t, 1, peekAll(t, l)[0].Remaining, "the second has returned by itself")
	f.take(l, 1)
	f.advance(time.Second)
	assert.Zero(t, f.refund(l, b, 1).Remaining, "a call that outlived its lease returns nothing of others")
	assert.Zero(t, f.refund(l, a, 1).Remaining)
	assert.EqualValues(t, 1, f.refund(l, c, 1).Remaining)
	require.NoError(t, l.Release(t.Context(), 5))
	assert.Empty(t, f.redis.Keys(), "nothing is held")
}

// TestInFlight_LeasesWithOneEnd_AreReturnedByTheirGrants: a deployment has changed the lease.
func TestInFlight_LeasesWithOneEnd_AreReturnedByTheirGrants(t *testing.T) {
	f := newClocked(t)
	long, short := New(f.client, "name", InFlight{9, 2 * time.Second}), New(f.client, "name", InFlight{9, time.Second})
	a := f.take(long, 3)
	f.advance(time.Second)
	b := f.take(short, 2)
	assert.EqualValues(t, 6, f.refund(long, b, 3).Remaining)
	assert.EqualValues(t, 6, f.refund(long, b, 3).Remaining)
	assert.EqualValues(t, 9, f.refund(short, a, 9).Remaining)
}

// TestInFlight_ForeignState_IsAStateError, and stays as it is.
func TestInFlight_ForeignState_IsAStateError(t *testing.T) {
	for _, state := range []map[string]float64{
		{"x": 1}, {"clock": -5}, {"held": -5}, {"clock": -5, "other": -3}, {"clock": 5, "held": -5}, {"clock": -5, "held": 5},
		{"clock": -5, "held": -3, "x": 1}, {"clock": -5, "held": -3, "a 9 1": 9, "a 10 x": 10},
	} {
		f := newClocked(t)
		l := New(f.client, "name", InFlight{5, time.Hour})
		for member, score := range state {
			_, err := f.redis.ZAdd(l.wire.keys[0], score, member)
			require.NoError(t, err)
		}
		before := f.redis.Dump()
		var stateErr *rratelimiter.StateError
		require.ErrorAs(t, redistest.Err(l.Take(t.Context(), 1)), &stateErr, "%v", state)
		require.ErrorAs(t, l.Release(t.Context(), 1), &stateErr, "%v", state)
		assert.Equal(t, before, f.redis.Dump())
	}
}

// TestPause_BesideInFlight_HasNoPace: the permits are those that are free.
func TestPause_BesideInFlight_HasNoPace(t *testing.T) {
	f := newClocked(t)
	l := New(f.client, "name", InFlight{8, time.Hour}, Pause{time.Hour})
	require.NoError(t, l.Pause(t.Context(), time.Minute))
	require.False(t, redistest.Result(t, l.TryAcquire, 1))
	f.advance(time.Minute + time.Millisecond)
	assert.True(t, redistest.Result(t, l.TryAcquire, 8))
}

func TestInFlight_InvalidFields_AreErrors(t *testing.T) {
	for _, p := range []InFlight{{0, time.Second}, {1_000_001, time.Second}, {1, 0}, {1, time.Microsecond},
		{-1, time.Second}} {
		require.ErrorIs(t, Validate(p), rratelimiter.ErrInvalidRate, "%+v", p)
	}
	require.NoError(t, Validate(InFlight{1_000_000, time.Millisecond}))
	require.Error(t, Validate(InFlight{1, time.Second}, InFlight{2, time.Minute}), "they share a key")
	l := New(newClocked(t).client, "name", InFlight{5, time.Second})
	require.ErrorIs(t, redistest.Err(l.Take(t.Context(), 6)), rratelimiter.ErrPermitsExceedRate)
}

// placeGrant is a grant of TestInFlight_RefundsResetsAndClocks_AreExact.
type placeGrant struct {
	end      int64 // by the latest clock, milliseconds
	permits  int64
	receipts []string
}

// TestInFlight_RefundsResetsAndClocks_AreExact: the clocks of clients differ and jump, and the lease and
// the permits change. Clients take, charge, refund in parts, more than once and too late, and release.
// After each call exactly those permits are held whose lease has not ended by the latest clock.
func TestInFlight_RefundsResetsAndClocks_AreExact(t *testing.T) {
	for seed := range uint64(redistest.Deep(10, 200)) {
		f, random := newClocked(t), rand.New(rand.NewPCG(seed, 0))
		f.back = true
		policies := []InFlight{{20, time.Second}, {20, 3 * time.Second}, {12, time.Second}}
		var held, gone []*placeGrant
		var clock, server, log = int64(0), int64(begin), []string{}
		for step := range 300 {
			server += random.Int64N(1 + random.Int64N(300_000))
			offset := []int64{0, 200_000, -100_000, random.Int64N(4e6) - 2e6}[min(3, random.IntN(20))]
			f.set(server + offset)
			p := policies[max(0, random.IntN(30)-27)]
			l := New(f.client, "name", p)
			if held == nil {
				clock = 0 // of a state that has gone
			}
			at := max(clock, f.now/1000)
			live := slices.DeleteFunc(slices.Clone(held), func(g *placeGrant) bool { return g.end <= at })
			sum := int64(0)
			for _, g := range live {
				sum += g.permits
			}
			about := fmt.Sprintf("seed %d, step %d after %s", seed, step, strings.Join(log[max(0, len(log)-9):], "; "))
			n := 1 + random.Int64N(5)
			what := ""
			switch kind := random.IntN(40); {
			case kind == 0:
				what = "Reset"
				require.NoError(t, l.Reset(t.Context()))
				gone, held = append(gone, held...), nil
			case kind == 1:
				what = fmt.Sprint("Charge ", n)
				redistest.Result(t, l.Charge, n)
				live = append(live, &placeGrant{at + p.Lease.Milliseconds(), n, nil})
				held, clock = live, at
			case kind < 6:
				what = fmt.Sprint("Release ", n)
				require.NoError(t, l.Release(t.Context(), n))
				if len(live) > 0 {
					held, clock = live, at
				}
				slices.SortStableFunc(live, func(a, b *placeGrant) int { return int(a.end - b.end) })
				for _, g := range live {
					back := min(n, g.permits)
					n, g.permits = n-back, g.permits-back
				}
			case kind < 20 && len(held)+len(gone) > 0:
				all := slices.Concat(held, gone)
				g := all[random.IntN(len(all))]
				what = fmt.Sprintf("refund %d of %+v", n, *g)
				if g.receipts == nil {
					break
				}
				require.NoError(t, l.wire.refund(t.Context(), n, g.receipts...))
				if back := min(n, g.permits); back > 0 && slices.Contains(live, g) {
					g.permits -= back
					held, clock = live, at
				}
			default:
				what = fmt.Sprint("Take ", n)
				batch := f.ask(l, engine.Ask{Permits: n})
				require.Equal(t, sum+n <= p.Permits, batch.Requests[0].Allowed, "%s: %s of %d", about, what, sum)
				if sum+n <= p.Permits {
					live = append(live, &placeGrant{at + p.Lease.Milliseconds(), n, receiptsOf(batch)})
					held, clock = live, at
				}
			}
			if held = slices.DeleteFunc(held, func(g *placeGrant) bool { return g.permits == 0 }); len(held) == 0 {
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
			require.Equal(t, want, peekAll(t, New(f.client, "name", policies[0]))[0].Remaining, "%s; %s", about, what)
		}
	}
}

// TestInFlight_ManyGrants_AreExact: more leases end, and more grants are released, than a page has.
func TestInFlight_ManyGrants_AreExact(t *testing.T) {
	f := newClocked(t)
	l := New(f.client, "name", InFlight{3000, time.Minute})
	f.set(begin - begin%1000)
	var receipts [][]string
	for range 2000 {
		receipts = append(receipts, f.take(l, 1))
	}
	f.advance(time.Second)
	f.take(l, 1000)
	assert.False(t, redistest.Result(t, l.Take, 1).Allowed)
	for _, r := range receipts[100:900] { // all of the same time
		f.refund(l, r, 1)
	}
	assert.EqualValues(t, 800, peekAll(t, l)[0].Remaining)
	require.NoError(t, l.Release(t.Context(), 600))
	assert.EqualValues(t, 1400, peekAll(t, l)[0].Remaining)
	f.advance(59*time.Second + time.Millisecond) // a grant more than 1000 in a millisecond is of the next one
	assert.True(t, redistest.Result(t, l.Take, 2000).Allowed, "the leases of 600 grants have ended")
	assert.False(t, redistest.Result(t, l.Take, 1).Allowed)
	require.NoError(t, l.Release(t.Context(), 1500))
	assert.EqualValues(t, 1500, peekAll(t, l)[0].Remaining)
}

// TestInFlight_ScriptStops_GrantsNoMore: a command is not permitted, at any point of a script.
func TestInFlight_ScriptStops_GrantsNoMore(t *testing.T) {
	for _, command := range []string{"ZADD", "ZREM", "PEXPIRE", "UNLINK", "PTTL"} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := New(f.client, "name", InFlight{10, time.Minute})
			require.True(t, redistest.Result(t, l.TryAcquire, 3))
			time.Sleep(time.Second)
			require.True(t, redistest.Result(t, l.TryAcquire, 6))
			time.Sleep(59 * time.Second) // the first lease has ended
			stop := stopAt(command, acquire, l)
			for range 3 {
				_ = stop(f)
			}
			free := peekAll(t, l)[0].Remaining
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
	text := strings.ReplaceAll(scriptText(c, l.wire.members), "call('"+command+"'", "error('stopped')('"+command+"'")
	return func(f *fixture) error {
		args := callArguments([]string{fmt.Sprint(time.Now().UnixMicro()), "1", newEpoch()}, l.wire.members, time.Now())
		eval := f.Conn.B().Eval().Script(text).Numkeys(1).Key(l.wire.keys...).Arg(args...).Build()
		return f.Conn.Do(f.Context(), eval).Error()
	}
}

// TestTaken_InFlight_ReturnsThePlace whatever the final cost of the rate is, once, also if replies are lost.
func TestTaken_InFlight_ReturnsThePlace(t *testing.T) {
	for _, actual := range []int64{0, 1, 2, 3} {
		for _, lost := range []int32{0, 1, 2, 3} {
			withRedis(t, func(t *testing.T, f *fixture) {
				client, lose := lossyClient(t, f)
				l := New(client, "name", SlidingLog{20, time.Hour}, InFlight{5, time.Minute})
				var taken, other Taken
				takeAll(t, &taken, 2, l)
				require.NoError(t, other.Acquire(t.Context(), 3, l))
				require.Equal(t, []int64{15, 0}, remainingOf(t, l))
				lose.Store(lost)
				require.NoError(t, taken.Settle(t.Context(), actual))
				lose.Store(0)
				want := []int64{17 - actual, 2}
				assert.Equal(t, want, remainingOf(t, l), "%d, %d lost", actual, lost)
				require.NoError(t, taken.Settle(t.Context(), 0))
				assert.Equal(t, want, remainingOf(t, l), "a second Settle")
				time.Sleep(time.Minute) // the other call outlives its lease
				takeAll(t, &taken, 5, l)
				require.NoError(t, other.Settle(t.Context()))
				assert.Zero(t, remainingOf(t, l)[1], "nothing of others")
			})
		}
	}
}

// TestTaken_InFlightBesideRedisson_ReturnsThePlace, also where more was used than Redisson's can be charged.
func TestTaken_InFlightBesideRedisson_ReturnsThePlace(t *testing.T) {
	for _, actual := range []int64{0, 1, 2, 3} {
		withRedis(t, func(t *testing.T, f *fixture) {
			rate := rratelimiter.Rate{Permits: 20, Interval: time.Hour}
			shared := f.client.Limiter("{x}:shared", rratelimiter.InitialRate(rate))
			places := New(f.client, "{x}:places", InFlight{5, time.Minute})
			var taken Taken
			takeAll(t, &taken, 2, shared, places)
			assert.Equal(t, []int64{3}, remainingOf(t, places))
			err := taken.Settle(t.Context(), actual)
			assert.Equal(t, actual > 2, err != nil, "%v", err)
			assert.Equal(t, []int64{5}, remainingOf(t, places))
			assert.Equal(t, 20-min(2, actual), available(t, shared))
			var alone Taken
			takeAll(t, &alone, 2, places)
			require.NoError(t, alone.Settle(t.Context(), 4), "there is nothing to charge")
			assert.Equal(t, []int64{5}, remainingOf(t, places))
			takeAll(t, &alone, 3, places)
			require.NoError(t, alone.Settle(t.Context(), 1))
			assert.Equal(t, []int64{5}, remainingOf(t, places), "1 and 2 by the same script")
		})
	}
}

// TestInFlight_Waiters_AreServedInOrder: a place that this Client returns at once, one of another Client
// within 100 ms.
func TestInFlight_Waiters_AreServedInOrder(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := InFlight{2, time.Minute}
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
		require.NoError(t, here.Release(t.Context(), 2))
		synctest.Wait()
		assert.Len(t, served, 2)
	})
}

// TestInFlight_ManyWaiters_AskTenTimesASecond: also while one after another gives up. No wait ends before
// its deadline.
func TestInFlight_ManyWaiters_AskTenTimesASecond(t *testing.T) {
	for name, opts := range map[string][]rratelimiter.Option{
		"": nil, "denial cache": {rratelimiter.WithDenialCache(time.Second)},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(rratelimiter.New(f.Conn, opts...), "name", InFlight{3, time.Hour})
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
		client := rratelimiter.New(f.Conn, rratelimiter.WithDenialCache(time.Hour), rratelimiter.WithLease(time.Second))
		l := New(client, "name", FixedWindow{5, time.Hour, false}, InFlight{5, time.Hour})
		require.True(t, redistest.Result(t, l.TryAcquire, 5))
		require.False(t, redistest.Result(t, l.TryAcquire, 1))
		require.NoError(t, New(f.client, "name", l.Policies()...).Release(t.Context(), 1))
		assert.True(t, redistest.Result(t, l.TryAcquire, 1))
	})
}

// TestInFlight_ShortWaits_AskNoMoreOften: beside callers that wait for longer.
func TestInFlight_ShortWaits_AskNoMoreOften(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		90 * time.Millisecond, 150 * time.Millisecond} {
		withRedis(t, func(t *testing.T, f *fixture) {
			p := InFlight{3, time.Hour}
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
