package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// grant is permits that were taken at some time from..to, Unix milliseconds.
type grant struct{ from, to, permits int64 }

// limiter is the state of a Redisson limiter: its rate, 0 if it is not set, and its grants.
type limiter struct {
	rate   int64
	grants []grant // the oldest first
}

// span is the time of a call, Unix milliseconds: equal on a clock that is set, and otherwise the
// first and the last possible one.
type span struct{ from, to int64 }

// spans returns the possible times of a call.
func (in Input) spans() []span {
	if in.Readings == nil {
		return []span{{in.From / 1000, in.To / 1000}}
	}
	all := make([]span, len(in.Readings))
	for i, at := range in.Readings {
		all[i] = span{at / 1000, at / 1000}
	}
	return slices.Compact(all)
}

// Limiter returns the model of a Redisson limiter with a rate and an interval, whose Clients do not
// prefetch permits. On the host's clock the interval must be longer than the history, so that no grant
// expires in it.
func Limiter(rate int64, interval time.Duration) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{limiter{rate: rate}} },
		Step: func(state, input, output any) []any {
			l, in, out := state.(limiter), input.(Input), output.(Output)
			var next []any
			if out.lost() {
				next = append(next, l) // not applied
			}
			for _, at := range in.spans() {
				if after, ok := l.step(in, out, at, interval.Milliseconds()); ok {
					next = append(next, after)
				}
			}
			return next
		},
		Equal: func(a, b any) bool {
			return a.(limiter).rate == b.(limiter).rate && slices.Equal(a.(limiter).grants, b.(limiter).grants)
		},
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return model.ToModel()
}

// unexpired returns the grants that have not expired.
func (l limiter) unexpired(at span, interval int64) []grant {
	first := 0
	for first < len(l.grants) && l.grants[first].to <= at.from-interval {
		first++
	}
	return slices.Clone(l.grants[first:])
}

// free returns the free permits, below 0 if more are taken than the rate.
func (l limiter) free() int64 {
	free := l.rate
	for _, g := range l.grants {
		free -= g.permits
	}
	return free
}

// step applies a call at a time. ok reports whether the model gives the answer of the call; if that
// was lost, any answer is right.
func (l limiter) step(in Input, out Output, at span, interval int64) (next limiter, ok bool) {
	if l.rate == 0 && in.Call != SetRate && in.Call != KeepState {
		if in.Call == Delete {
			return l, out.lost() || !out.Allowed
		}
		return l, out.lost() || errors.Is(out.Err, rratelimiter.ErrNotInitialized)
	}
	if errors.Is(out.Err, rratelimiter.ErrNotInitialized) {
		return l, false
	}
	next = limiter{l.rate, l.unexpired(at, interval)}
	switch in.Call {
	case SetRate:
		return limiter{rate: in.Permits}, true
	case KeepState:
		next.rate = in.Permits
		return next, true
	case Delete:
		return limiter{}, out.lost() || out.Allowed
	case AvailablePermits:
		free := next.free()
		if !in.Java {
			free = max(0, free)
		}
		return l, out.lost() || out.Available == free // it changes nothing
	case Release:
		next.release(in.Permits)
		return next, true
	default:
		return next.take(in, out, at, interval)
	}
}

// take applies TryAcquire and Take.
func (l limiter) take(in Input, out Output, at span, interval int64) (next limiter, ok bool) {
	if in.Permits > l.rate {
		return l, out.lost() || errors.Is(out.Err, rratelimiter.ErrPermitsExceedRate)
	}
	if errors.Is(out.Err, rratelimiter.ErrPermitsExceedRate) {
		return l, false
	}
	allowed := l.free() >= in.Permits
	if allowed {
		l.grants = append(l.grants, grant{at.from, at.to, in.Permits})
		slices.SortStableFunc(l.grants, func(a, b grant) int { return cmp.Compare(a.from, b.from) })
	}
	if out.lost() {
		return l, true
	}
	if in.Call == TryAcquire {
		return l, out.Allowed == allowed
	}
	d := out.Decision
	if d.Allowed != allowed || d.Limit != l.rate || d.Remaining != max(0, l.free()) {
		return l, false
	}
	if allowed {
		return l, d.RetryAfter == 0 && l.returns(l.rate, d.ResetAfter, at, interval)
	}
	return l, l.returns(in.Permits, d.RetryAfter, at, interval) && l.returns(l.rate, d.ResetAfter, at, interval)
}

// returns reports whether so many permits are free after a duration, and not earlier. A call whose
// clock is behind the date of a grant takes that for a prefetch, whose unused permits can return early.
// The order of grants whose times are uncertain is, too.
func (l limiter) returns(permits int64, after time.Duration, at span, interval int64) bool {
	free := l.free()
	for _, g := range l.grants {
		if free += g.permits; free >= permits {
			first, last, ahead := g.from, g.to, false
			for _, other := range l.grants {
				ahead = ahead || other.to > at.from
				if other.from < other.to || at.from < at.to {
					first, last = min(first, other.from), max(last, other.to)
				}
			}
			wait := after.Milliseconds()
			return wait <= last+interval-at.from && (ahead && wait > 0 || wait >= first+interval-at.to)
		}
	}
	return free >= permits && after == 0
}

// release returns permits of the oldest grants.
func (l *limiter) release(permits int64) {
	if l.free()+permits >= l.rate {
		l.grants = nil
		return
	}
	for permits > 0 {
		n := min(permits, l.grants[0].permits)
		permits -= n
		if l.grants[0].permits -= n; l.grants[0].permits == 0 {
			l.grants = l.grants[1:]
		}
	}
}
