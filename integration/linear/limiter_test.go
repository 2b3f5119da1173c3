package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

const begin = 1_763_740_123_456_000 // Unix microseconds

// TestLimiter_GoClients_IsLinearizable: three Clients and a clock that moves while they call.
func TestLimiter_GoClients_IsLinearizable(t *testing.T) {
	check(t, "go", histories(20), func(i int, seed uint64) (*History, porcupine.Model) {
		switch {
		case i%10 == 9:
			return goClients(t, seed, failover)
		case i%2 == 1:
			return goClients(t, seed, cut)
		}
		return goClients(t, seed, none)
	})
}

func goClients(t *testing.T, seed uint64, f fault) (*History, porcupine.Model) {
	random := rand.New(rand.NewPCG(seed, 0))
	const interval = 10 * time.Second
	rate := 3 + random.Int64N(12)
	name := nameOf(seed)
	h := &History{Clock: NewClock(begin), Late: f.late}
	var limiters []*rratelimiter.Limiter
	for _, conn := range conns {
		limiters = append(limiters, rratelimiter.New(conn, rratelimiter.WithClock(h.Clock.Now)).Limiter(name))
	}
	set(t, limiters[0], rratelimiter.Rate{Permits: rate, Interval: interval})
	makeCalls(t, seed, name, f, func(c *caller) {
		advance(h.Clock, c.random, interval, time.Millisecond)
		h.Do(c.number, c.input(rate), limiterCall(limiters[c.random.IntN(clients)], interval))
	})
	return h, Limiter(rate, interval)
}

// input chooses a call. A new rate is about as high as the old one.
func (c *caller) input(rate int64) Input {
	in := Input{Call: limiterCalls[c.random.IntN(len(limiterCalls))], Permits: 1 + c.random.Int64N(4)}
	if in.Call == SetRate || in.Call == KeepState {
		in.Permits = max(2, rate/2+c.random.Int64N(rate))
	}
	return in
}

// limiterCalls are the calls of a history, as often as they are made.
var limiterCalls = slices.Concat(slices.Repeat([]Call{TryAcquire, Take}, 8),
	[]Call{Release, Release, AvailablePermits, AvailablePermits, SetRate, SetRate, KeepState, Delete})

// TestLimiter_GoAndRedisson_IsLinearizable: Clients with the host's and the server's clock beside
// real Redisson. The interval is longer than a history, since Redisson's clock cannot be set.
func TestLimiter_GoAndRedisson_IsLinearizable(t *testing.T) {
	check(t, "java", histories(10), func(i int, seed uint64) (*History, porcupine.Model) {
		if i%10 == 9 {
			return goAndRedisson(t, seed, failover)
		}
		return goAndRedisson(t, seed, none)
	})
}

func goAndRedisson(t *testing.T, seed uint64, f fault) (*History, porcupine.Model) {
	random := rand.New(rand.NewPCG(seed, 0))
	const interval = time.Hour
	rate := 10 + random.Int64N(30)
	name := nameOf(seed)
	h := &History{Clock: new(Clock), Late: true}
	libraries := []func(context.Context, Input) Output{redissonCall(redisson.Limiter(name), interval)}
	for i, conn := range conns {
		var opts []rratelimiter.Option
		if i == 0 {
			opts = append(opts, rratelimiter.WithServerTime())
		}
		l := rratelimiter.New(conn, opts...).Limiter(name)
		if i == 0 {
			set(t, l, rratelimiter.Rate{Permits: rate, Interval: interval})
		}
		libraries = append(libraries, limiterCall(l, interval))
	}
	makeCalls(t, seed, name, f, func(c *caller) {
		who := c.random.IntN(len(libraries))
		in := c.input(rate)
		if in.Java = who == 0; in.Java {
			switch in.Call {
			case Take:
				in.Call = TryAcquire
			case Release, KeepState, Delete: // Redisson's leave drift behind, which heals later
				in.Call = AvailablePermits
			}
		}
		h.Do(c.number, in, libraries[who])
	})
	return h, Limiter(rate, interval)
}

// redissonCall makes a call of a limiter in Java.
func redissonCall(l *oracle.Limiter, interval time.Duration) func(context.Context, Input) Output {
	return func(ctx context.Context, in Input) (out Output) {
		switch in.Call {
		case TryAcquire:
			out.Allowed, out.Err = l.TryAcquire(ctx, in.Permits)
		case AvailablePermits:
			out.Available, out.Err = l.AvailablePermits(ctx)
		case SetRate:
			out.Err = l.SetRate(ctx, oracle.Rate{Permits: in.Permits, Interval: interval})
		default:
			panic(in.Call)
		}
		var thrown *oracle.Error
		if errors.As(out.Err, &thrown) && strings.Contains(thrown.Message, "cannot exceed defined rate") {
			out.Err = rratelimiter.ErrPermitsExceedRate
		}
		return out
	}
}
