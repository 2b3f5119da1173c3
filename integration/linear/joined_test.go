package linear

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestJoin_GoClients_IsLinearizable: a Join of two Redisson limiters beside calls of one of them.
func TestJoin_GoClients_IsLinearizable(t *testing.T) {
	check(t, "join", histories(6), func(i int, seed uint64) (*History, porcupine.Model) {
		if i%2 == 1 {
			return joining(t, seed, cut)
		}
		return joining(t, seed, none)
	})
}

func joining(t *testing.T, seed uint64, f fault) (*History, porcupine.Model) {
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
	makeCalls(t, seed, name, f, func(c *caller) {
		advance(h.Clock, c.random, interval, time.Millisecond)
		client := c.random.IntN(clients)
		in := c.input(rates[0])
		if in.Joined = in.Call == Take || in.Call == TryAcquire && c.random.IntN(2) == 0; in.Joined {
			h.Do(c.number, in, policyCall(joins[client]))
		} else {
			h.Do(c.number, in, limiterCall(first[client], interval))
		}
	})
	return h, Joined(rates, interval)
}

// A Join across slots is rejected before anything is sent.
func TestJoin_OtherSlots_ReturnsErrCrossSlot(t *testing.T) {
	client, window := rratelimiter.New(conns[0]), limit.FixedWindow{Permits: 10, Interval: time.Hour}
	one, other := limit.New(client, "{a}"+nameOf(0), window), limit.New(client, "{b}"+nameOf(0), window)
	require.ErrorIs(t, redistest.Err(limit.Join(one, other).TryAcquire(t.Context(), 1)), rratelimiter.ErrCrossSlot)
	require.EqualValues(t, 9, redistest.Result(t, one.Take, 1).Remaining)
}
