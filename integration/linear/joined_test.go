package linear

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestJoin_GoClients_IsLinearizable: a Join of two Redisson limiters beside calls of one of them.
func TestJoin_GoClients_IsLinearizable(t *testing.T) {
	check(t, "join", histories(6), func(i int, seed uint64) (*History, porcupine.Model) {
		if i%2 == 1 {
			return joining(t, seed, cut, 2*time.Millisecond)
		}
		return joining(t, seed, none, 0)
	})
}

func joining(t *testing.T, seed uint64, happens fault, pause time.Duration) (*History, porcupine.Model) {
	random := rand.New(rand.NewPCG(seed, 0))
	const interval = 10 * time.Second
	rates := []int64{3 + random.Int64N(8), 3 + random.Int64N(8)}
	name := "{" + nameOf(seed) + "}"
	h := &History{Clock: NewClock(begin)}
	var first []*rratelimiter.Limiter
	var joins []*limit.Limiter
	for i, conn := range conns {
		c := rratelimiter.New(conn, rratelimiter.WithClock(h.Clock.Now))
		all := []*rratelimiter.Limiter{c.Limiter(name + "a"), c.Limiter(name + "b")}
		if i == 0 {
			for i, l := range all {
				set(t, l, rratelimiter.Rate{Permits: rates[i], Interval: interval})
			}
		}
		first, joins = append(first, all[0]), append(joins, limit.Join(all[0], all[1]))
	}
	each(t, seed, name, happens, 6, func(c *caller) {
		for range 5 + c.random.IntN(5) {
			c.rest(pause)
			advance(h.Clock, c.random, interval, time.Millisecond)
			client := c.random.IntN(clients)
			in := c.input(rates[0])
			if in.Joined = in.Call == Take || in.Call == TryAcquire && c.random.IntN(2) == 0; in.Joined {
				h.Do(c.number, in, policyCall(joins[client]))
			} else {
				h.Do(c.number, in, limiterCall(first[client], interval))
			}
		}
	})
	return h, Joined(rates, interval)
}
