package rratelimiter

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

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
