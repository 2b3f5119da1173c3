package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// countUpTo has recount.lua count fewer: a test with as many grants as inside.MostCounted is slow.
func countUpTo(t *testing.T, grants int) {
	whole := recountScript
	t.Cleanup(func() { recountScript = whole })
	most := strconv.Itoa(inside.MostCounted)
	require.Contains(t, scriptTexts["recount"], "<= "+most+" ")
	recountScript = redisx.NewScript(strings.ReplaceAll(scriptTexts["recount"], most, strconv.Itoa(grants)))
}

// TestRecount_GrantsUpToTheBound_AreCounted: a larger set stays as it is until it is smaller.
func TestRecount_GrantsUpToTheBound_AreCounted(t *testing.T) {
	const bound = 300
	countUpTo(t, bound)
	for grants, drift := range map[int]int64{bound - 1: 0, bound: 0, bound + 1: 700} {
		runWithRedis(t, fmt.Sprint(grants), func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1 << 20, Interval: time.Hour, KeepAlive: 2 * time.Hour})
			f.recount(l)
			assert.Equal(t, []string{"limiter"}, f.Redis.Keys(), "no state gets none")
			f.fill(l, grants, 1, 70_000, 3)
			f.redissonReleases(700)
			ttls := f.ttls()
			f.recount(l)
			assert.Equal(t, drift, f.drift())
			assert.Len(t, f.members(), grants, "no grant leaves the set")
			assert.Equal(t, ttls, f.ttls(), "a count is no use")
			require.NoError(t, l.Release(t.Context(), 70_000))
			f.recount(l)
			assert.Zero(t, f.drift())
		})
	}
}

// TestRecount_Changes_AreCorrected: expired grants, whatever the next call removes of them.
func TestRecount_Changes_AreCorrected(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"a release of Java": func(f *fixture) { f.redissonReleases(300) },
		"a lower rate":      func(f *fixture) { f.setRate(200) },
		"lost permits":      func(f *fixture) { f.RequireNoError(f.Redis.Incr("{limiter}:value", -300)) },
		"a lost set":        func(f *fixture) { f.Redis.Del("{limiter}:permits") },
		"a lost value":      func(f *fixture) { f.Redis.Del("{limiter}:value") },
		"a lost value of 0": func(f *fixture) { f.setRate(600); f.Redis.Del("{limiter}:value") },
		"a grant of no permits": func(f *fixture) {
			f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), member("x", 0)))
		},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1000, Interval: 10 * time.Second, KeepAlive: time.Minute})
			f.fill(l, 600, 1)
			change(f)
			time.Sleep(10*time.Second - 301*time.Millisecond) // half of the grants have expired
			f.recount(l)
			assert.Zero(t, f.drift())
			assert.Equal(t, f.Redis.TTL("limiter")+time.Millisecond, f.Redis.TTL("{limiter}:value"))
			inUse := int64(300)
			if name == "a lost set" {
				inUse = 0
			}
			f.RequireAvailable(l, max(0, f.rate()-inUse))
			time.Sleep(10 * time.Second)
			f.RequireGranted(l, f.rate())
			f.RequireDenied(l, 1)
		})
	}
}

// TestRelease_BesideDrift_RemovesItsPermitsOnly: another program has lowered the rate and kept the grants.
func TestRelease_BesideDrift_RemovesItsPermitsOnly(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1000, Interval: 10 * time.Second})
		f.fill(l, 500, 1)
		f.setRate(100)
		require.NoError(t, l.Release(t.Context(), 200), "more than the rate")
		assert.EqualValues(t, 300, f.sum(), "in use")
		require.NoError(t, l.Release(t.Context(), 300))
		assert.Zero(t, f.sum(), "in use")
		f.setRate(1000)
		f.fill(l, 500, 1)
		f.setRate(600)
		require.NoError(t, l.Release(t.Context(), 300))
		assert.EqualValues(t, 200, f.sum(), "in use")
		f.recount(l)
		f.RequireAvailable(l, 400)
		time.Sleep(10 * time.Second)
		f.RequireGranted(l, 12)
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Release(t.Context(), 2))
		assert.Empty(t, f.members(), "all have expired")
	})
}

// TestRecountIfDue_Use_CountsInTheBackground: at the first use of a limiter, after half an interval, and if
// the rate has changed. A call that counts a missing value needs no other count.
func TestRecountIfDue_Use_CountsInTheBackground(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 100, Interval: time.Hour})
		calls := func(want int64, l *Limiter) {
			t.Helper()
			before := f.Scripts.Load()
			f.RequireGranted(l, 1)
			synctest.Wait()
			assert.Equal(t, want, f.Scripts.Load()-before, "calls")
		}
		calls(1, l)
		calls(1, l)
		other := New(f.Conn).Limiter("limiter")
		f.redissonReleases(1)
		calls(2, other)
		assert.Zero(t, f.drift())
		calls(1, other)
		time.Sleep(30*time.Minute - time.Second)
		calls(1, other)
		time.Sleep(time.Second)
		f.redissonReleases(1)
		f.Latency.Store(int64(time.Second))
		began := time.Now()
		f.RequireGranted(other, 1)
		assert.Equal(t, time.Second, time.Since(began), "no caller waits for it")
		ctx := redistest.Timeout(t, time.Second/2)
		require.ErrorIs(t, other.protocol.client.Flush(ctx), context.DeadlineExceeded)
		require.NoError(t, other.protocol.client.Flush(t.Context()))
		assert.Equal(t, 2*time.Second, time.Since(began), "Flush waits for it")
		f.Latency.Store(0)
		assert.Zero(t, f.drift())
		f.setRate(50)
		calls(2, other)
		assert.Zero(t, f.drift())
		calls(1, other)
	})
}

// TestRecountIfDue_Fleet_SharesItsCounts: there is one in half an interval. Half an interval after a change, a
// call of any Client is enough to count.
func TestRecountIfDue_Fleet_SharesItsCounts(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"one clock": 0, "clocks that differ": 240 * time.Millisecond} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			f.limiter(Rate{Permits: 4000, Interval: time.Second})
			fleet := make([]*Limiter, 8)
			for i := range fleet {
				now := func() time.Time { return time.Now().Add(time.Duration(i%2) * skew) }
				fleet[i] = New(f.Conn, WithClock(now)).Limiter("limiter")
			}
			call := func(l *Limiter) {
				f.RequireGranted(l, 1)
				synctest.Wait()
			}
			pause, _ := recountPauses(4000, 1000)
			marks, began, before := make(map[string]bool), time.Now(), f.Scripts.Load()
			for time.Since(began) < 10*pause {
				for _, l := range fleet {
					call(l)
					mark, _ := f.Redis.Get("{limiter}:counted")
					marks[mark] = true
				}
				time.Sleep(pause / 10)
			}
			assert.LessOrEqual(t, len(marks), 11, "counts")
			assert.GreaterOrEqual(t, len(marks), 9, "counts")
			extra := f.Scripts.Load() - before - 100*int64(len(fleet)) - int64(len(marks))
			assert.LessOrEqual(t, extra, int64(11*len(fleet)), "calls that only read the mark")
			for range redistest.Deep(30, 100) {
				f.redissonReleases(1 + rand.Int64N(10))
				time.Sleep(pause)
				call(fleet[rand.IntN(len(fleet))])
				require.Zero(t, f.drift())
				for range rand.IntN(10) {
					time.Sleep(rand.N(pause / 5))
					call(fleet[rand.IntN(len(fleet))])
				}
			}
			assert.LessOrEqual(t, f.Redis.TTL("{limiter}:counted"), pause)
		})
	}
}

// TestRecountIfDue_Mark_KeepsNoClientFromACountThatIsDue: the first call of a Client counts in spite of a mark
// that says little of its limiter. Nothing of another program is overwritten.
func TestRecountIfDue_Mark_KeepsNoClientFromACountThatIsDue(t *testing.T) {
	const mark = "{limiter}:counted"
	at := func(text string, d time.Duration) string {
		return fmt.Sprint(text, " ", time.Now().Add(d).UnixMilli())
	}
	set := func(f *fixture, text string) {
		require.NoError(f, f.Redis.Set(mark, text))
		f.Redis.SetTTL(mark, time.Second)
	}
	for name, test := range map[string]struct {
		mark   func(f *fixture)
		counts bool
	}{
		"another Client's":     {func(f *fixture) { set(f, at("1000 1000", 0)) }, false},
		"of another rate":      {func(f *fixture) { set(f, at("2000 1000", 0)) }, true},
		"of a clock behind":    {func(f *fixture) { set(f, at("1000 1000", -time.Second)) }, true},
		"of a clock ahead":     {func(f *fixture) { set(f, at("1000 1000", time.Hour)) }, true},
		"a text":               {func(f *fixture) { set(f, "a text") }, true},
		"a hash":               {func(f *fixture) { f.Redis.HSet(mark, "field", "value") }, true},
		"it cannot be written": {func(f *fixture) { f.refuse("SET") }, true},
		"none":                 {func(f *fixture) {}, true},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1000, Interval: time.Second})
			f.fill(l, 300, 1)
			synctest.Wait()
			f.Redis.Del(mark)
			f.redissonReleases(50)
			test.mark(f)
			f.RequireGranted(New(f.Conn).Limiter("limiter"), 1)
			synctest.Wait()
			assert.Equal(t, test.counts, f.drift() == 0)
			switch name {
			case "a text":
				f.Redis.CheckGet(t, mark, name)
			case "a hash":
				assert.Equal(t, "value", f.Redis.HGet(mark, "field"))
			}
		})
	}
}

// TestRecountIfDue_StateOfAClient_IsCountedByThatClient: each one has drift of its own.
func TestRecountIfDue_StateOfAClient_IsCountedByThatClient(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		f.limiter(Rate{Permits: 1000, Interval: time.Second, Type: PerClient})
		for range 2 {
			l := New(f.Conn).Limiter("limiter")
			f.RequireGranted(l, 10)
			f.RequireNoError(f.Redis.Incr("{limiter}:value:"+l.protocol.client.ID(), 5))
			time.Sleep(500 * time.Millisecond)
			f.RequireGranted(l, 10)
			synctest.Wait()
			assert.EqualValues(t, 980, f.Stored("{limiter}:value:"+l.protocol.client.ID()), "a client's value")
		}
		assert.False(t, f.Redis.Exists("{limiter}:counted"))
	})
}

// TestRecount_Fails_CountsAgain: a second later, by the Client whose count failed, and at once by one that
// makes its first call. A count that failed leaves no mark.
func TestRecount_Fails_CountsAgain(t *testing.T) {
	for name, interval := range map[string]time.Duration{"by itself": time.Hour, "shared": 10 * time.Second} {
		for _, by := range []string{"the same Client", "another Client"} {
			runWithRedis(t, name+", "+by, func(t *testing.T, f *fixture) {
				l := f.limiter(Rate{Permits: 1000, Interval: interval})
				f.fill(l, 300, 1)
				synctest.Wait()
				f.Redis.Del("{limiter}:counted")
				f.redissonReleases(50)
				other := New(f.Conn).Limiter("limiter")
				refused := f.refuse("ZCARD")
				f.RequireGranted(other, 1)
				synctest.Wait()
				assert.Equal(t, 1, *refused)
				f.refuse("")
				if by == "another Client" {
					other = New(f.Conn).Limiter("limiter")
				} else {
					time.Sleep(time.Second - time.Millisecond)
					f.RequireGranted(other, 1)
					synctest.Wait()
					assert.EqualValues(t, 50, f.drift())
					time.Sleep(time.Millisecond)
				}
				f.RequireGranted(other, 1)
				synctest.Wait()
				assert.Zero(t, f.drift())
			})
		}
	}
}

// TestRecount_ShortMember_IsFoundOnceASecond: also such counts of many Clients are shared.
func TestRecount_ShortMember_IsFoundOnceASecond(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, f *fixture) {
		f.RequireGranted(f.limiter(Rate{Permits: 2000, Interval: 10 * time.Second}), 1)
		synctest.Wait()
		f.Redis.Del("{limiter}:counted")
		f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), "abc"))
		fleet, marks := make([]*Limiter, 8), make(map[string]bool)
		for i := range fleet {
			fleet[i] = New(f.Conn).Limiter("limiter")
		}
		for range 5 * 10 {
			for _, l := range fleet {
				f.RequireGranted(l, 1)
				synctest.Wait()
				mark, _ := f.Redis.Get("{limiter}:counted")
				marks[mark] = true
			}
			time.Sleep(time.Second / 10)
		}
		assert.GreaterOrEqual(t, len(marks), 4, "counts")
		assert.LessOrEqual(t, len(marks), 5, "counts")
		f.RequireNoError(f.Redis.ZRem("{limiter}:permits", "abc"))
		f.redissonReleases(50)
		time.Sleep(time.Second)
		f.RequireGranted(fleet[0], 1)
		synctest.Wait()
		assert.Zero(t, f.drift())
	})
}

// TestDrift_RandomCallsOfManyClients_FreesNothing: clients whose clocks differ make random calls while
// others count, on sets of a few grants and of about the bound of a count. No call leaves more drift than
// it found, except for permits that another program released, and no more than the rate is in use beside
// those. When all but one stop, the drift is gone half an interval and a call later.
func TestDrift_RandomCallsOfManyClients_FreesNothing(t *testing.T) {
	const bound = 400
	countUpTo(t, bound)
	for name, grants := range map[string]int{"few grants": 1, "grants about the bound": bound - 50} {
		for _, drifts := range []bool{false, true} {
			runWithRedis(t, fmt.Sprint(name, ", drift ", drifts), func(t *testing.T, f *fixture) {
				for seed := range uint64(redistest.Deep(1, 4)) {
					f.Redis.FlushAll()
					f.randomDrift(rand.New(rand.NewPCG(seed, uint64(grants))), grants, bound, drifts)
				}
			})
		}
	}
}

func (f *fixture) randomDrift(random *rand.Rand, grants, bound int, drifts bool) {
	const interval = 5 * time.Second
	rates := []int64{1500, 30_000, 3_000_000}
	f.fill(f.limiter(Rate{Permits: rates[random.IntN(len(rates))], Interval: interval}), grants, 1)
	type client struct {
		*Limiter
		off   atomic.Int64 // nanoseconds of its clock: a prefetch that ends reads it
		taken []receipt.Receipt
	}
	var clients []*client
	for i, off := range []time.Duration{0, 0, -2 * time.Second, 2 * time.Second, -100 * time.Millisecond} {
		c := new(client)
		c.off.Store(int64(off))
		opts := []Option{WithClock(func() time.Time { return time.Now().Add(time.Duration(c.off.Load())) })}
		if i == 1 {
			opts = append(opts, WithPrefetch(time.Second))
		}
		c.Limiter = New(f.Conn, opts...).Limiter("limiter")
		clients = append(clients, c)
	}
	drift := func() int64 {
		if !f.Redis.Exists("{limiter}:value") {
			return 0
		}
		return f.drift()
	}
	size := func() int64 {
		if random.IntN(20) == 0 {
			return 1 + random.Int64N(f.rate()/50)
		}
		return 1
	}
	for step := range redistest.Deep(250, 4000) {
		before := drift()
		c := clients[random.IntN(len(clients))]
		k := random.IntN(1000)
		switch {
		case k < 900:
			var result engine.Result
			ask := engine.Ask{Permits: size(), Detail: true, Receipt: k < 100}
			require.NoError(f, (*handle)(c.Limiter).Try(f.Context(), ask, &result))
			if result.Refund != nil {
				c.taken = append(c.taken, receipt.Receipt{Permits: ask.Permits, Refund: result.Refund})
			}
		case k < 950:
			if last := len(c.taken) - 1; last >= 0 {
				taken := c.taken[last]
				c.taken = c.taken[:last]
				require.NoError(f, taken.Refund(f.Context(), 1+random.Int64N(taken.Permits)))
			}
		case k < 952:
			require.NoError(f, c.Release(f.Context(), size()))
		case k < 955:
			if f.Redis.Exists("{limiter}:value") {
				f.redissonShrinks(size())
			}
		case k < 961:
			f.Redis.Del("{limiter}:value")
		case k < 969 && (!drifts || !f.Redis.Exists("{limiter}:value")):
		case k < 963:
			f.redissonReleases(1 + random.Int64N(f.rate()))
			continue
		case k < 965:
			f.RequireNoError(f.Redis.Incr("{limiter}:value", -int(random.Int64N(f.rate()/2))))
			continue
		case k < 967:
			f.setRate(rates[random.IntN(len(rates))])
			continue
		case k < 969:
			c.off.Add(random.Int64N(int64(4*time.Second)) - int64(2*time.Second))
		default:
			time.Sleep(time.Duration(random.Int64N(int64(interval / 125))))
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(interval / 250))))
		}
		require.LessOrEqual(f, drift(), max(0, before), "step %d: %d", step, k)
	}
	time.Sleep(interval / recountPart)
	f.RequireNoError(clients[0].TryAcquire(f.Context(), 1))
	synctest.Wait()
	if len(f.members()) <= bound {
		require.Zero(f, drift())
	}
	// The skewed clients' grants expire late: they are among those that count.
	for range redistest.Deep(100, 2000) {
		time.Sleep(interval / time.Duration(redistest.Deep(80, 1600)))
		f.RequireNoError(clients[0].TryAcquire(f.Context(), 1))
	}
	require.Zero(f, drift())
	for _, c := range clients {
		require.NoError(f, c.protocol.client.Flush(f.Context()))
	}
}
