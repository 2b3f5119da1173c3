package linear

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

const begin = 1_763_740_123_456_000 // Unix microseconds

// TestLimiter_GoClients_IsLinearizable: three Clients and a clock that moves while they call.
func TestLimiter_GoClients_IsLinearizable(t *testing.T) {
	for i := range histories(40) {
		happens, pause := none, time.Duration(0)
		switch {
		case i%10 == 9:
			happens, pause = failover, 50*time.Millisecond
		case i%2 == 1:
			happens, pause = cut, 2*time.Millisecond
		}
		goClients(t, seed()+uint64(i), happens, pause)
	}
}

func goClients(t *testing.T, seed uint64, happens fault, pause time.Duration) {
	random := rand.New(rand.NewPCG(seed, 0))
	const interval = 10 * time.Second
	rate := 3 + random.Int64N(12)
	name := fmt.Sprintf("linear-%d-%d", seed, time.Now().UnixNano())
	h := &History{Clock: NewClock(begin)}
	var limiters []*rratelimiter.Limiter
	for _, conn := range conns {
		limiters = append(limiters, rratelimiter.New(conn, rratelimiter.WithClock(h.Clock.Now)).Limiter(name))
	}
	set(t, limiters[0], rratelimiter.Rate{Permits: rate, Interval: interval})
	each(t, seed, name, happens, 6, func(c *caller) {
		for range 5 + c.random.IntN(5) {
			if pause > 0 {
				time.Sleep(time.Duration(c.random.Int64N(int64(pause))))
			}
			advance(h.Clock, c.random, interval)
			in := Input{Call: limiterCalls[c.random.IntN(len(limiterCalls))], Permits: 1 + c.random.Int64N(4)}
			if in.Call == SetRate || in.Call == KeepState {
				in.Permits = 3 + c.random.Int64N(12)
			}
			h.Do(c.number, in, limiterCall(limiters[c.random.IntN(clients)], interval))
		}
	})
	ok, page := Linearizable(t, fmt.Sprintf("go-%d", seed), Limiter(rate, interval), h.Calls())
	require.True(t, ok, "SEED=%d: %s", seed, page)
}

// limiterCalls are the calls of a history, as often as they are made.
var limiterCalls = []Call{TryAcquire, TryAcquire, TryAcquire, TryAcquire, TryAcquire, TryAcquire, TryAcquire, TryAcquire,
	Take, Take, Take, Take, Take, Take, Take, Take, Release, Release, AvailablePermits, AvailablePermits,
	SetRate, KeepState}
