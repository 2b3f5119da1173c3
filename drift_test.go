package rratelimiter

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestDrift_RandomCallsOfManyClients_FreesNothing: clients whose clocks differ make random calls
// while others count a set of several pages. No call leaves more drift than it found, except for
// permits that another program released. When all but one stop, the drift is gone within an
// interval.
func TestDrift_RandomCallsOfManyClients_FreesNothing(t *testing.T) {
	for _, seed := range []int{0, 11}[:redistest.Deep(1, 2)] {
		runWithRedis(t, fmt.Sprint(seed), func(t *testing.T, f *fixture) {
			f.randomDrift(rand.New(rand.NewPCG(uint64(seed), 0)), seed%3 == 0)
		})
	}
}

func (f *fixture) randomDrift(random *rand.Rand, drifts bool) {
	const interval = 5 * time.Second
	rates := []int64{1500, 30_000, 3_000_000}
	rate := rates[random.IntN(len(rates))]
	l := f.limiter(Rate{Permits: rate, Interval: interval})
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
	f.RequireGranted(l, 1)
	for step := range redistest.Deep(400, 4000) {
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
				require.NoError(f, c.wire.refund(f.Context(), n, c.grants[i][:17], c.sizes[i], ""))
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
	// The skewed clients' grants expire late: they are among those that count.
	pause := interval / time.Duration(redistest.Deep(500, 2000))
	for end := time.Now().Add(interval + interval/8); time.Now().Before(end); time.Sleep(pause) {
		f.RequireNoError(clients[0].TryAcquire(f.Context(), 1))
	}
	require.Zero(f, drift())
}

// TestCountDrift_Due_CountsOnceInTheBackground: the count of a limiter in a Join.
func TestCountDrift_Due_CountsOnceInTheBackground(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour, KeepAlive: 2 * time.Hour})
		f.RequireGranted(l, 4)
		f.redissonReleases(3)
		time.Sleep(time.Hour - time.Minute)
		before := f.Scripts.Load()
		for range 3 {
			l.wire.countDrift()
		}
		synctest.Wait()
		assert.Equal(t, before+1, f.Scripts.Load())
		assert.Equal(t, map[string]time.Duration{"limiter": time.Hour + time.Minute,
			"value": time.Hour + time.Minute + time.Millisecond, "permits": time.Hour + time.Minute + time.Millisecond},
			f.ttls(), "a count is no use: the limiter expires no later")
		assert.Zero(t, f.drift())
		assert.EqualValues(t, 9, f.Stored("{limiter}:value"))
	})
}

// TestDrift_ReleasedGrantsExpireFirst_ReleaseStays: Redisson released 8 of 10 permits, and 4 of
// them expire before the next call: their expiry returns nothing.
func TestDrift_ReleasedGrantsExpireFirst_ReleaseStays(t *testing.T) {
	for _, counted := range []bool{false, true} { // the limiter was counted just before
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: 10 * time.Second})
			for _, n := range []int64{4, 4, 2} {
				f.RequireGranted(l, n)
				time.Sleep(time.Second)
			}
			f.redissonReleases(8)
			time.Sleep(7 * time.Second)
			if !counted {
				l = New(f.Conn).Limiter("limiter")
			}
			f.RequireGranted(l, 8)
			f.RequireDenied(l, 1)
			assert.Zero(t, f.drift())
		})
	}
}

// TestDrift_ValueLostBeforeGrantsAreRemoved_IsCounted: the value is gone when a call is to remove
// grants.
func TestDrift_ValueLostBeforeGrantsAreRemoved_IsCounted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 2000, Interval: time.Hour})
		f.fill(l, 1500, 1)
		f.Redis.Del("{limiter}:value")
		cursor := "cut 444 946684800000"
		for !strings.HasPrefix(cursor, "done") {
			cursor = f.recount(l, cursor)
		}
		assert.Equal(t, "done 1", cursor)
		assert.Zero(t, f.drift())
		assert.EqualValues(t, 500, f.Stored("{limiter}:value"))
	})
}

// TestHint_ServersClock_IsDatedByTheProcess: only with the server's clock.
func TestHint_ServersClock_IsDatedByTheProcess(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		call, now := time.UnixMilli(7), time.Now().UnixMilli()
		clock := WithClock(func() time.Time { return call })
		assert.EqualValues(t, 7, New(f.Conn, clock).Limiter("a").wire.millisOf(call))
		assert.Equal(t, now, New(f.Conn, WithServerTime()).Limiter("a").wire.millisOf(time.Time{}))
	})
}
