package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestSchedule_Begin_IsDueAfterThePause(t *testing.T) {
	s := new(schedule)
	assert.True(t, s.begin(-5), "the first use")
	assert.False(t, s.begin(1<<40), "a count runs")
	s.end(time.Second, time.Millisecond)
	assert.False(t, s.begin(994))
	assert.True(t, s.begin(995))
	s.end(time.Second, 600*time.Millisecond)
	assert.True(t, s.begin(994), "the clock was set back")
	s.end(time.Second, 600*time.Millisecond)
	s.hurry() // the rate has changed
	assert.False(t, s.begin(1593), "the share of the server's time")
	assert.True(t, s.begin(1594))
	s.end(time.Hour, 0)
	s.skip(2000, time.Second, 0)
	assert.False(t, s.begin(2999), "a call has counted")
	assert.True(t, s.begin(3000))
}

func TestCountPauses_Grants_TakeAHundredthOfTheServer(t *testing.T) {
	for _, test := range []struct {
		interval, grants int64
		pause, least     time.Duration
	}{
		{10_000, mostCounted, 5 * time.Second, 824200 * time.Microsecond},
		{100, mostCounted, 824200 * time.Microsecond, 824200 * time.Microsecond},
		{1, 0, 5 * time.Millisecond, 5 * time.Millisecond},
	} {
		pause, least := countPauses(test.interval, test.grants)
		assert.Equal(t, test.pause, pause)
		assert.Equal(t, test.least, least)
	}
}

// TestRecount_GrantsUpToTheBound_AreCounted: a larger set stays as it is until it is smaller.
func TestRecount_GrantsUpToTheBound_AreCounted(t *testing.T) {
	for grants, drift := range map[int]int64{mostCounted - 1: 0, mostCounted: 0, mostCounted + 1: 700} {
		runWithRedis(t, fmt.Sprint(grants), func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1 << 20, Interval: time.Hour, KeepAlive: 2 * time.Hour})
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

// TestRecount_RefundsBeside_NoGrantInUseLeaves: two large grants shrink, one beside each of two counts.
func TestRecount_RefundsBeside_NoGrantInUseLeaves(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 3000, Interval: time.Hour})
		f.fill(l, 700, 1)
		f.granted(l, "a", 500)
		f.granted(l, "b", 500)
		f.fill(l, 300, 1)
		for _, letter := range []string{"a", "b"} {
			f.Latency.Store(int64(time.Millisecond))
			l.wire.hint().counts.skip(0, 0, 0)
			f.RequireGranted(l, 1)
			require.NoError(t, f.refund(l, letter, 400, 500))
			f.Latency.Store(0)
			require.NoError(t, l.wire.client.Flush(t.Context()))
		}
		assert.EqualValues(t, 1202, f.sum())
		assert.Len(t, f.members(), 1004)
		f.RequireAvailable(l, 1798)
	})
}

// TestRecount_Changes_AreCorrected: expired grants, whatever the next call removes of them.
func TestRecount_Changes_AreCorrected(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"a release of Java": func(f *fixture) { f.redissonReleases(300) },
		"a lower rate":      func(f *fixture) { f.setRate(200) },
		"a higher rate":     func(f *fixture) { f.setRate(2000) },
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

func TestRecount_NoState_WritesNone(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		f.recount(f.limiter(Rate{Permits: 10, Interval: time.Second}))
		assert.Equal(t, []string{"limiter"}, f.Redis.Keys())
	})
}

// TestCountDrift_CallsGiveEverythingBack_IsCorrected: or beside a client whose clock is a second late.
func TestCountDrift_CallsGiveEverythingBack_IsCorrected(t *testing.T) {
	for name, late := range map[string]time.Duration{"all is returned": 0, "a clock is late": time.Second} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1000, Interval: 10 * time.Second})
			f.fill(l, 300, 1)
			f.redissonReleases(200)
			other := New(f.Conn, WithClock(func() time.Time { return time.Now().Add(-late) })).Limiter("limiter")
			f.RequireGranted(other, 1)
			for range 11 { // half an interval and a call
				for _, l := range []*Limiter{l, other} {
					slot := receipt.Collect(t.Context())
					f.RequireTrue(l.TryAcquire(slot, 20))
					if late == 0 || l == other {
						require.NoError(t, slot.Of(20).Refund(t.Context(), 20))
					}
				}
				time.Sleep(500 * time.Millisecond)
			}
			assert.Zero(t, f.drift())
		})
	}
}

// TestCountDrift_Use_CountsInTheBackground: at the first use of a limiter, after half an interval, and if
// the rate has changed. A call that counts a missing value needs no other count.
func TestCountDrift_Use_CountsInTheBackground(t *testing.T) {
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
		require.NoError(t, other.wire.client.Flush(t.Context()))
		assert.Equal(t, 2*time.Second, time.Since(began), "Flush waits for it")
		f.Latency.Store(0)
		assert.Zero(t, f.drift())
		f.setRate(50)
		calls(2, other)
		assert.Zero(t, f.drift())
		calls(1, other)
	})
}

func TestFlush_CountHangs_EndsWithItsContext(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		f.RequireGranted(l, 1)
		other := New(f.Conn)
		f.Latency.Store(int64(time.Second))
		f.RequireGranted(other.Limiter("limiter"), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.ErrorIs(t, other.Flush(ctx), context.DeadlineExceeded)
		require.NoError(t, other.Flush(t.Context()))
	})
}

func TestRecount_Fails_CountsAgain(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1000, Interval: time.Hour})
		f.fill(l, 300, 1)
		f.redissonReleases(50)
		other := New(f.Conn).Limiter("limiter")
		refused := f.Reply("ZCARD", "", func(peer *server.Peer, _ []string) { peer.WriteError("NOPERM") })
		f.RequireGranted(other, 1)
		synctest.Wait()
		assert.Equal(t, 1, *refused)
		f.Reply("none", "", nil)
		time.Sleep(time.Second - time.Millisecond)
		f.RequireGranted(other, 1)
		synctest.Wait()
		assert.EqualValues(t, 50, f.drift())
		time.Sleep(time.Millisecond)
		f.RequireGranted(other, 1)
		synctest.Wait()
		assert.Zero(t, f.drift())
	})
}

// TestDrift_RandomCallsOfManyClients_FreesNothing: clients whose clocks differ make random calls while
// others count, on sets of a few grants and of about the bound of a count. No call leaves more drift than
// it found, except for permits that another program released, and no more than the rate is in use beside
// those. When all but one stop, the drift is gone half an interval and a call later.
func TestDrift_RandomCallsOfManyClients_FreesNothing(t *testing.T) {
	for name, grants := range map[string]int{"few grants": 1, "grants about the bound": mostCounted - 50} {
		for _, drifts := range []bool{false, true} {
			runWithRedis(t, fmt.Sprint(name, ", drift ", drifts), func(t *testing.T, f *fixture) {
				for seed := range uint64(redistest.Deep(1, 4)) {
					f.Redis.FlushAll()
					f.randomDrift(rand.New(rand.NewPCG(seed, uint64(grants))), grants, drifts)
				}
			})
		}
	}
}

func (f *fixture) randomDrift(random *rand.Rand, grants int, drifts bool) {
	const interval = 5 * time.Second
	rates := []int64{1500, 30_000, 3_000_000}
	steps := redistest.Deep(400, 4000)
	if grants > 1 {
		rates, steps = []int64{9000, 30_000, 3_000_000}, redistest.Deep(120, 1000) // a step takes long
	}
	rate := rates[random.IntN(len(rates))]
	l := f.limiter(Rate{Permits: rate, Interval: interval})
	f.fillNow(l, grants)
	type client struct {
		*Limiter
		off    time.Duration
		grants []string // to be refunded
		sizes  []int64
	}
	var clients []*client
	for i, off := range []time.Duration{0, 0, -2 * time.Second, 2 * time.Second, -100 * time.Millisecond} {
		c := &client{off: off}
		opts := []Option{WithClock(func() time.Time { return time.Now().Add(c.off) })}
		if i == 1 {
			opts = append(opts, WithLease(time.Second))
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
			return 1 + random.Int64N(max(1, rate/50))
		}
		return 1
	}
	for step := range steps {
		before := drift()
		what := ""
		c := clients[random.IntN(len(clients))]
		switch k := random.IntN(1000); {
		case k < 900:
			n := size()
			member := c.wire.client.member(n, false)
			what = fmt.Sprintf("client %v takes %d", c.off, n)
			if random.IntN(10) == 0 { // a grant whose caller leaves
				now := strconv.FormatInt(time.Now().Add(c.off).UnixMilli(), 10)
				reply, err := f.run(acquireScript, c.Limiter, now, member, f.hint(), "", fmt.Sprint(n))
				require.NoError(f, err)
				if left, err := reply.AsInt64(); err == nil && left >= 0 {
					c.grants, c.sizes = append(c.grants, member), append(c.sizes, n)
				}
			} else {
				f.RequireNoError(c.TryAcquire(f.Context(), n))
			}
		case k < 950:
			if i := len(c.grants) - 1; i >= 0 {
				i -= random.IntN(min(i+1, 5))
				n := 1 + random.Int64N(c.sizes[i])
				what = fmt.Sprintf("client %v refunds %d of %d", c.off, n, c.sizes[i])
				require.NoError(f, c.wire.refund(f.Context(), n, grantOf(c.grants[i]), c.sizes[i], ""))
				c.grants, c.sizes = c.grants[:i], c.sizes[:i]
			}
		case k < 955:
			n := size()
			what = fmt.Sprintf("client %v releases %d", c.off, n)
			require.NoError(f, c.Release(f.Context(), n))
		case k < 958:
			require.NoError(f, f.Conn.Do(f.Context(), f.Conn.B().ScriptFlush().Build()).Error())
		case k < 961:
			f.Redis.Del("{limiter}:value")
		case k < 969 && (!drifts || !f.Redis.Exists("{limiter}:value")):
		case k < 963:
			f.redissonReleases(1 + random.Int64N(rate))
			continue
		case k < 965:
			f.RequireNoError(f.Redis.Incr("{limiter}:value", -int(random.Int64N(rate/2))))
			continue
		case k < 967:
			rate = rates[random.IntN(len(rates))]
			f.setRate(rate)
			continue
		case k < 969:
			c.off += time.Duration(random.Int64N(int64(4*time.Second))) - 2*time.Second
		default:
			time.Sleep(time.Duration(random.Int64N(int64(interval / 125))))
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(interval / 250))))
		}
		after := drift()
		require.LessOrEqual(f, after, max(0, before), "step %d: %s", step, what)
	}
	time.Sleep(interval / countPart)
	f.RequireNoError(clients[0].TryAcquire(f.Context(), 1))
	synctest.Wait()
	if len(f.members()) <= mostCounted {
		require.Zero(f, drift())
	}
	// The skewed clients' grants expire late: they are among those that count.
	pause := interval / time.Duration(redistest.Deep(500, 2000))
	for end := time.Now().Add(interval + interval/8); time.Now().Before(end); time.Sleep(pause) {
		f.RequireNoError(clients[0].TryAcquire(f.Context(), 1))
	}
	synctest.Wait()
	require.Zero(f, drift())
	for _, c := range clients {
		require.NoError(f, c.wire.client.Flush(f.Context()))
	}
}
