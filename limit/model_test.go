package limit

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// model is a policy in plain Go: the reference of its script. Times are Unix microseconds.
type model interface {
	// take takes permits, if they are free.
	take(now, permits int64) bool
	// charge takes permits, whether they are free or not.
	charge(now, permits int64)
	// release returns permits, at most those that are taken.
	release(now, permits int64)
	// free returns the free permits, below 0 if more are taken than exist.
	free(now int64) int64
	// wait returns the microseconds until permits are free.
	wait(now, permits int64) int64
	// reset returns the microseconds until no permit is taken.
	reset(now int64) int64
}

// reserver is a model of a policy with reservations.
type reserver interface {
	// reserve takes permits, and returns the microseconds until they are free, and the argument of
	// undo.
	reserve(now, permits int64) (delay int64, ticket any)
	// undo is Cancel.
	undo(now int64, ticket any)
}

// decision is the answer of a model to a request.
func decision(m model, limit, now, permits int64, allowed bool) rratelimiter.Decision {
	d := rratelimiter.Decision{Allowed: allowed, Limit: limit, Remaining: max(0, m.free(now)),
		ResetAfter: micros(m.reset(now))}
	if !allowed {
		d.RetryAfter = micros(m.wait(now, permits))
	}
	return d
}

// bench is a Redis in memory and a clock, which tests set.
type bench struct {
	testing.TB
	redis  *miniredis.Miniredis
	client *rratelimiter.Client
	now    int64 // Unix microseconds
	back   bool  // the clock may go back: the server's stands still then, so that nothing expires
}

// begin is a time that is no multiple of any unit.
const begin = 1_763_740_123_456_789

func newBench(t *testing.T, opts ...rratelimiter.Option) *bench { return newBenchOf(t, opts...) }

func newBenchOf(t testing.TB, opts ...rratelimiter.Option) *bench {
	b := &bench{TB: t, redis: miniredis.RunT(t), now: begin}
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{b.redis.Addr()}, DisableCache: true,
		ForceSingleClient: true})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	b.client = rratelimiter.New(conn,
		append(opts, rratelimiter.WithClock(func() time.Time { return time.UnixMicro(b.now) }))...)
	return b
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	b.now += d.Microseconds()
	if !b.back {
		b.redis.FastForward(d)
	}
}

// TestPolicies_RandomCalls_MatchTheirModels: random calls at random times, with all fields of a
// Decision.
func TestPolicies_RandomCalls_MatchTheirModels(t *testing.T) {
	for _, p := range []struct {
		policy Policy
		limit  int64
		model  func() model
	}{
		{FixedWindow{10, time.Second, false}, 10, func() model { return &fixedModel{permits: 10, interval: 1e6} }},
		{FixedWindow{10, 3 * time.Second, true}, 10,
			func() model { return &fixedModel{permits: 10, interval: 3e6, aligned: true} }},
		{FixedWindow{1, time.Millisecond, false}, 1, func() model { return &fixedModel{permits: 1, interval: 1e3} }},
		{Calendar{10, Day, place("Europe/Berlin")}, 10, func() model { return newCalendarModel(10, Day, "Europe/Berlin") }},
		{Calendar{3, Week, place("America/New_York")}, 3,
			func() model { return newCalendarModel(3, Week, "America/New_York") }},
		{Calendar{1000, Month, nil}, 1000, func() model { return newCalendarModel(1000, Month, "UTC") }},
		{SlidingLog{10, time.Second}, 10, func() model { return &logModel{permits: 10, interval: 1e6} }},
		{SlidingLog{1000, 200 * time.Millisecond}, 1000, func() model { return &logModel{permits: 1000, interval: 2e5} }},
		{SlidingLog{1, time.Millisecond}, 1, func() model { return &logModel{permits: 1, interval: 1e3} }},
		{SlidingWindow{10, time.Second, 0}, 10, func() model { return &slidingModel{permits: 10, cell: 1e5, cells: 10} }},
		{SlidingWindow{100, time.Second, 4}, 100, func() model { return &slidingModel{permits: 100, cell: 25e4, cells: 4} }},
		{SlidingWindow{1000, time.Second, 1000}, 1000,
			func() model { return &slidingModel{permits: 1000, cell: 1e3, cells: 1000} }},
		{TokenBucket{20, 5, time.Second}, 20, func() model { return &tokenModel{capacity: 20, refill: 5, interval: 1e6} }},
		{TokenBucket{7, 3, 11 * time.Millisecond}, 7,
			func() model { return &tokenModel{capacity: 7, refill: 3, interval: 11e3} }},
		{TokenBucket{1000, 7919, time.Minute}, 1000,
			func() model { return &tokenModel{capacity: 1000, refill: 7919, interval: 6e7} }},
		{Smooth{Permits: 10, Interval: time.Second}, 10, func() model { return newSmoothModel(10, 1, 0, 0) }},
		{Smooth{3, 7 * time.Second, 20 * time.Second, 0, 0}, 3, func() model { return newSmoothModel(3.0/7, 20, 0, 0) }},
		{Smooth{Permits: 10, Interval: time.Second, WarmUp: 4 * time.Second}, 10,
			func() model { return newSmoothModel(10, 0, 4e6, 3) }},
		{Smooth{2, 3 * time.Second, 0, 17 * time.Second, 1.5}, 2,
			func() model { return newSmoothModel(2.0/3, 0, 17e6, 1.5) }},
		{LeakyBucket{10, 2, time.Second}, 10,
			func() model { return &tokenModel{capacity: 10, refill: 2, interval: 1e6, leaky: true} }},
		{LeakyBucket{40, 7, 13 * time.Millisecond}, 40,
			func() model { return &tokenModel{capacity: 40, refill: 7, interval: 13e3, leaky: true} }},
	} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("%T%+v back %t", p.policy, p.policy, back), func(t *testing.T) {
				b := newBench(t)
				b.back = back
				sequence(b, New(b.client, "name", p.policy), p.policy, p.limit, p.model, rand.New(rand.NewPCG(1, 2)), steps)
			})
		}
	}
}

// steps returns the number of calls of a sequence: POLICY_STEPS, or a default for daily runs.
var steps = func() int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("POLICY_STEPS"), "400"))
	if err != nil || n < 1 {
		panic("POLICY_STEPS wants a number above 0")
	}
	return n
}()

// sequence runs random calls through a limiter and its model.
func sequence(b *bench, l *Limiter, p Policy, limit int64, begins func() model, random *rand.Rand, steps int) {
	ctx, m := context.Background(), begins()
	most := min(p.most(), 4*limit) // a Smooth has no other bound
	var log []string
	reserves, has := m.(reserver)
	share := 20
	if has {
		share = 26
	}
	var made []*Reservation
	var tickets []any
	granted := b.now
	for step := range steps {
		if b.now > 8e15 { // near the year 2255, after which microseconds are not whole numbers
			b.redis.FlushAll()
			b.now, m, made, tickets = begin, begins(), nil, nil
			reserves, _ = m.(reserver)
		}
		// Usually until permits return.
		switch random.IntN(12) {
		case 0:
			b.pass(micros(m.wait(b.now, 1+random.Int64N(most))))
		case 1:
			b.pass(micros(max(0, m.reset(b.now)-random.Int64N(2))))
		case 2:
			b.pass(max(0, micros(m.wait(b.now, 1+random.Int64N(most)))-1*time.Microsecond))
		case 3:
			if b.back {
				b.pass(-micros(random.Int64N(5e5)))
			}
		case 4, 5, 6:
			b.pass(micros(random.Int64N(1 + m.reset(b.now)/4)))
		}
		n := 1 + random.Int64N(cmp.Or(min(most, 1+random.Int64N(most)), 1))
		var got, want rratelimiter.Decision
		var err error
		call := "Take"
		switch kind := random.IntN(share); {
		case kind == 0:
			call = "Charge"
			got, err = l.Charge(ctx, n)
			m.charge(b.now, n)
			want = decision(m, limit, b.now, 1, m.wait(b.now, 1) == 0)
			if want.Allowed {
				want.RetryAfter = 0
			}
		case kind == 1:
			call = "Release"
			err = l.Release(ctx, n)
			m.release(b.now, n)
		case kind == 2:
			call = "Peek"
			got, want, err = look(ctx, b, l, m, limit)
		case kind == 3:
			call = "TakeUpTo"
			var took int64
			took, got, err = l.TakeUpTo(ctx, n)
			free := min(n, max(0, m.free(b.now)))
			if m.wait(b.now, n) == 0 {
				free = n // a Smooth grants more than it has stored
			}
			require.Equal(b, free, took, "%v %d: TakeUpTo %d", log[max(0, len(log)-5):], step, n)
			if free > 0 {
				require.True(b, m.take(b.now, free))
			}
			want = decision(m, limit, b.now, 1, free > 0)
		case kind >= 23 && len(made) > 0:
			// Usually one of the last.
			which := max(random.IntN(len(made)), random.IntN(len(made)))
			call = "Cancel of " + made[which].receipt
			require.NoError(b, made[which].revoke(ctx))
			reserves.undo(b.now, tickets[which])
			made, tickets = slices.Delete(made, which, which+1), slices.Delete(tickets, which, which+1)
			got, want, err = look(ctx, b, l, m, limit)
		case kind >= 20:
			var r *Reservation
			r, err = l.Reserve(ctx, n)
			require.NoError(b, err)
			delay, ticket := reserves.reserve(b.now, n)
			call = fmt.Sprintf("Reserve, %v,", r.delay)
			require.Equal(b, micros(delay), r.delay, "%v %d: Reserve %d", log[max(0, len(log)-5):], step, n)
			made, tickets = append(made, r), append(tickets, ticket)
			got, want, err = look(ctx, b, l, m, limit)
		default:
			got, err = l.Take(ctx, n)
			ok := m.take(b.now, n)
			want = decision(m, limit, b.now, n, ok)
		}
		if call == "Charge" || got.Allowed && (call == "Take" || call == "TakeUpTo") {
			granted = b.now
		}
		log = append(log, fmt.Sprintf("%d: at %d %s %d: %+v", step, b.now-begin, call, n, got))
		require.NoError(b, err, "%v", log[max(0, len(log)-5):])
		require.Equal(b, want, got, "%v", log[max(0, len(log)-5):])
		// No key stays too long, and none expires too early.
		for _, key := range b.redis.Keys() {
			if b.back {
				continue
			}
			most := max(micros(m.reset(b.now)+1)+time.Millisecond, stays(p)-micros(b.now-granted))
			require.LessOrEqual(b, b.redis.TTL(key), most, "%v", log[max(0, len(log)-5):])
		}
	}
}

// stays returns how long the key of a policy can exist after a grant although no permit is taken.
func stays(p Policy) time.Duration {
	switch p := p.(type) {
	case FixedWindow:
		return p.Interval
	case Calendar:
		return map[Unit]time.Duration{Day: 25 * time.Hour, Week: 169 * time.Hour, Month: 745 * time.Hour,
			Year: 366 * 24 * time.Hour}[p.Unit]
	case SlidingWindow:
		return p.Interval + p.Interval/time.Duration(p.cells())
	case SlidingLog:
		return p.Interval
	}
	return 0
}

// look returns the answers of a limiter and its model to a request for one permit.
func look(ctx context.Context, b *bench, l *Limiter, m model, limit int64) (got, want rratelimiter.Decision,
	err error) {
	all, err := l.Peek(ctx)
	if err == nil {
		require.Len(b, all, 1)
		got = all[0]
	}
	return got, decision(m, limit, b.now, 1, m.wait(b.now, 1) == 0), err
}
