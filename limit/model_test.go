package limit

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// decision is the answer of a model to a request.
func decision(m policymodel.Model, limit, now, permits int64, allowed bool) rratelimiter.Decision {
	d := rratelimiter.Decision{Allowed: allowed, Limit: limit, Remaining: max(0, m.Free(now)),
		ResetAfter: micros(m.Reset(now))}
	if !allowed {
		d.RetryAfter = micros(m.Wait(now, permits))
	}
	return d
}

// TestPolicies_RandomCalls_MatchTheirModels: random calls at random times, with all fields of a
// Decision. Clocks go back by up to an hour, but for windows of which denials are remembered.
func TestPolicies_RandomCalls_MatchTheirModels(t *testing.T) {
	t.Parallel()
	for i, p := range comparedPolicies {
		for j, back := range []bool{false, true} {
			for name, opts := range cacheOptions(i + j) {
				t.Run(fmt.Sprintf("%T%+v back %t%s", p, p, back, name), func(t *testing.T) {
					f := newClocked(t, opts...)
					f.back = back
					f.inMillis(p, opts)
					sequence(f, New(f.client, "name", p), p, rand.New(rand.NewPCG(1, 2)), steps)
				})
			}
		}
	}
}

// cacheOptions has the options without and with a denial cache, or one of both by a number unless tests are deep.
func cacheOptions(n int) map[string][]rratelimiter.Option {
	all := map[string][]rratelimiter.Option{"": nil, ", denials remembered": {rratelimiter.WithDenialCache(1 << 62)}}
	if redistest.Deep(0, 1) == 0 {
		delete(all, []string{"", ", denials remembered"}[n%2])
	}
	return all
}

// withPause is a policy beside a Pause of a minute at most.
type withPause struct{ Policy }

// withPenalty is a policy beside a Penalty.
type withPenalty struct {
	Policy
	penalty Penalty
}

// alone returns a policy without the Pause or the Penalty beside it.
func alone(p Policy) Policy {
	switch beside := p.(type) {
	case withPause:
		return beside.Policy
	case withPenalty:
		return beside.Policy
	}
	return p
}

// modelled is a policy of 10 permits, none of which returns within a minute, and the model of its kind. Random
// calls of the others of its kind are compared with the model.
type modelled struct {
	ten    Policy
	model  func(Policy) policymodel.Model
	others []Policy
}

// modelRow has the types of modelled.
func modelRow[P Policy](ten P, model func(P) policymodel.Model, others ...P) modelled {
	row := modelled{ten: ten, model: func(p Policy) policymodel.Model { return model(p.(P)) }}
	for _, p := range others {
		row.others = append(row.others, p)
	}
	return row
}

// models has a row for each kind of policies. Tests of all policies run by them.
var models = []modelled{
	modelRow(FixedWindow{10, time.Hour, false}, func(p FixedWindow) policymodel.Model {
		return &policymodel.FixedWindow{Permits: p.Permits, Interval: p.Interval.Microseconds(), Aligned: p.Aligned}
	}, FixedWindow{10, time.Second, false}, FixedWindow{10, 3 * time.Second, true},
		FixedWindow{1, time.Millisecond, false}, FixedWindow{1000, time.Hour, false},
		FixedWindow{100, 20 * time.Second, true}, FixedWindow{30, time.Second, false}),
	modelRow(Calendar{10, Year, nil}, func(p Calendar) policymodel.Model {
		return &policymodel.Calendar{Permits: p.Permits, Unit: policymodel.Unit(p.Unit), In: p.location()}
	}, Calendar{10, Day, place("Europe/Berlin")}, Calendar{3, Week, place("America/New_York")},
		Calendar{1000, Month, nil}, Calendar{1000, Day, place("Europe/Berlin")}),
	modelRow(tenCells, func(p SlidingWindow) policymodel.Model {
		cell := p.Interval.Microseconds() / p.cells()
		return &policymodel.SlidingWindow{Permits: p.Permits, Cell: cell, Cells: p.cells()}
	}, SlidingWindow{10, time.Second, 0}, SlidingWindow{100, time.Second, 4}, SlidingWindow{1000, time.Second, 1000},
		SlidingWindow{3, time.Hour, 0}),
	modelRow(tenLog, func(p SlidingLog) policymodel.Model {
		return &policymodel.SlidingLog{Permits: p.Permits, Interval: p.Interval.Microseconds()}
	}, SlidingLog{10, time.Second}, SlidingLog{1000, 200 * time.Millisecond}, SlidingLog{100, 200 * time.Millisecond},
		SlidingLog{1, time.Millisecond}),
	modelRow(tenBucket, modelOfBucket, TokenBucket{20, 5, time.Second}, TokenBucket{7, 3, 11 * time.Millisecond},
		TokenBucket{1000, 7919, time.Minute}),
	modelRow(LeakyBucket{10, 1, time.Hour}, func(p LeakyBucket) policymodel.Model { return modelOfBucket(p.token()) },
		LeakyBucket{10, 2, time.Second}, LeakyBucket{40, 7, 13 * time.Millisecond}),
	modelRow(tenSmooth, func(p Smooth) policymodel.Model {
		return policymodel.NewSmooth(float64(p.Permits)/p.Interval.Seconds(), cmp.Or(p.Burst, time.Second).Seconds(),
			float64(p.WarmUp.Microseconds()))
	}, Smooth{Permits: 10, Interval: time.Second}, Smooth{3, 7 * time.Second, 20 * time.Second, 0},
		Smooth{Permits: 10, Interval: time.Second, WarmUp: 4 * time.Second},
		Smooth{2, 3 * time.Second, 0, 17 * time.Second}),
	modelRow(InFlight{10, time.Hour, false}, func(p InFlight) policymodel.Model {
		return &policymodel.InFlight{Permits: p.Permits, Lease: p.Lease.Microseconds()}
	}, InFlight{10, time.Second, false}, InFlight{300, 30 * time.Second, false}),
	modelRow(Drip{10, time.Hour}, func(p Drip) policymodel.Model { return modelOfBucket(p.bucket()) },
		Drip{7, 11 * time.Millisecond}),
}

// everyPolicy has the policies of models, and an aligned window.
var everyPolicy = func() []Policy {
	all := []Policy{FixedWindow{10, time.Hour, true}}
	for _, row := range models {
		all = append(all, row.ten)
	}
	return all
}()

// comparedPolicies has the others of models: each row has some.
var comparedPolicies = func() (all []Policy) {
	for _, row := range models {
		if len(row.others) == 0 {
			panic(fmt.Sprintf("%T has no policies for random calls in models", row.ten))
		}
		all = append(all, row.others...)
	}
	return all
}()

var (
	tenCells  = SlidingWindow{10, time.Hour, 0}
	tenLog    = SlidingLog{10, time.Hour}
	tenBucket = TokenBucket{10, 1, time.Hour}
	tenSmooth = Smooth{Permits: 1, Interval: time.Hour, Burst: 10 * time.Hour}
)

func modelOfBucket(p TokenBucket) policymodel.Model {
	return &policymodel.TokenBucket{Capacity: p.Capacity, Refill: p.Refill, Interval: p.Interval.Microseconds()}
}

// modelOf returns the model of a policy, and the Limit of its decisions.
func modelOf(p Policy) (m policymodel.Model, limit int64) {
	if p, ok := p.(withPause); ok {
		m, limit = modelOf(p.Policy)
		return &policymodel.Pause{Model: m}, limit
	}
	if p, ok := p.(withPenalty); ok {
		m, limit = modelOf(p.Policy)
		return &policymodel.Penalty{Model: m, Denials: p.penalty.Denials, Within: p.penalty.Within.Microseconds(),
			For: p.penalty.For.Microseconds(), Renew: p.penalty.Renew}, limit
	}
	d, _ := policy.Of(p)
	for _, row := range models {
		if reflect.TypeOf(row.ten) == reflect.TypeOf(p) {
			return row.model(p), d.Quota
		}
	}
	panic(fmt.Sprintf("%T has no row in models", p))
}

// steps returns the number of calls of a sequence: POLICY_STEPS, or a default.
var steps = func() int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("POLICY_STEPS"), strconv.Itoa(redistest.Deep(60, 400))))
	if err != nil || n < 1 {
		panic("POLICY_STEPS wants a number above 0")
	}
	return n
}()

// sequence runs random calls through a limiter and its model.
func sequence(f *clocked, l *Limiter, p Policy, random *rand.Rand, steps int) {
	ctx := context.Background()
	m, limit := modelOf(p)
	unit := int64(1) // of the times between calls
	_, held := alone(p).(InFlight)
	_, pauses := p.(withPause)
	smooth, _ := alone(p).(Smooth)
	penalty, penalizes := m.(*policymodel.Penalty)
	if pauses || penalizes {
		unit = 1000 // in which Redis counts the rest of a pause or a penalty
	}
	advance := func(d int64) { f.advance(micros((d + unit - 1) / unit * unit)) }
	at := func() int64 { return f.now }
	if f.windows = isWindow(p); f.windows {
		at = func() int64 { return f.server } // which ends windows
	}
	most := min(mostOf(p), 4*limit) // a Smooth has no other bound
	var log []string
	granted := f.now
	for step := range steps {
		if f.now > 8e15 { // near the year 2255, after which microseconds are not whole numbers
			f.redis.FlushAll()
			f.set(begin)
			m, _ = modelOf(p)
			penalty, _ = m.(*policymodel.Penalty)
		}
		// Usually until permits return.
		switch random.IntN(12) {
		case 0:
			advance(m.Wait(at(), 1+random.Int64N(most)))
		case 1:
			advance(max(0, m.Reset(at())-random.Int64N(2)))
		case 2:
			advance(max(0, m.Wait(at(), 1+random.Int64N(most))-1))
		case 3:
			if f.back && !f.millis { // a denial from memory ends by the clock of the Client
				advance(-random.Int64N([]int64{5e5, 36e8}[random.IntN(2)]))
			}
		case 4, 5, 6:
			advance(random.Int64N(1 + m.Reset(at())/4))
		case 7:
			advance(random.Int64N(1 + min(m.Reset(at()), 500_000)))
		}
		n := 1 + random.Int64N(cmp.Or(min(most, 1+random.Int64N(most)), 1))
		if f.lives && random.IntN(4) > 0 {
			n = 1 + n/50
		}
		var got, want rratelimiter.Decision
		var err error
		call := "Take"
		switch kind := random.IntN(20); {
		case kind < 2 && held:
			continue // neither acts on it: TestInFlight_RefundsResetsAndClocks_AreExact
		case kind == 0:
			call = "Charge"
			got, err = l.Charge(ctx, n)
			m.Charge(at(), n)
			want = decision(m, limit, at(), 1, m.Wait(at(), 1) == 0)
			if want.Allowed {
				want.RetryAfter = 0
			}
		case kind == 1:
			call = "Release"
			err = l.Release(ctx, n)
			m.Release(at(), n)
		case pauses && (kind == 2 || kind == 19):
			call, n = "Pause", random.Int64N([]int64{1, 1e6, 9e7}[random.IntN(3)])
			err = l.Pause(ctx, micros(n))
			m.(*policymodel.Pause).Pause(at(), min(n, 6e7))
		case penalizes && (kind == 2 || kind == 19):
			call, err = "Pause", l.Pause(ctx, 0)
			penalty.Forgive()
		case kind == 2:
			call = "Peek"
			got, want = redistest.Peek(f, l)[0], decision(m, limit, at(), 1, m.Wait(at(), 1) == 0)
		case kind == 3:
			call = "TakeUpTo"
			var took int64
			took, got, err = l.TakeUpTo(ctx, n)
			free := min(n, max(0, m.Free(at())))
			if m.Wait(at(), n) == 0 {
				free = n // a Smooth grants more than it has stored
			}
			require.Equal(f, free, took, "%v %d: TakeUpTo %d", log[max(0, len(log)-5):], step, n)
			if free > 0 {
				require.True(f, policymodel.Take(m, at(), free))
			}
			if penalizes && free == 0 {
				penalty.Denied(at())
			}
			want = decision(m, limit, at(), 1, free > 0)
		default:
			got, err = l.Take(ctx, n)
			ok := policymodel.Take(m, at(), n)
			if penalizes && !ok {
				penalty.Denied(at())
			}
			want = decision(m, limit, at(), n, ok)
		}
		if call == "Charge" || got.Allowed && (call == "Take" || call == "TakeUpTo") {
			granted = f.now
		}
		log = append(log, fmt.Sprintf("%d: at %d %s %d: %+v", step, f.now-begin, call, n, got))
		require.NoError(f, err, "%v", log[max(0, len(log)-5):])
		if got.Remaining < want.Remaining && (f.lives || !want.Allowed) {
			got.Remaining = want.Remaining // an answer from memory does not count what has returned since
		}
		if (pauses || penalizes) && !want.Allowed {
			got.Remaining = want.Remaining // that of the policy that denies for longest
		}
		if smooth.WarmUp > 0 && got.ResetAfter == want.ResetAfter+time.Microsecond {
			got.ResetAfter = want.ResetAfter // an answer from memory rounds up at the time of its denial
		}
		if call == "Peek" && f.lives {
			want = got // prefetched permits are taken
		}
		require.Equal(f, want, got, "%v", log[max(0, len(log)-5):])
		// No key stays too long, and none expires too early.
		for _, key := range f.redis.Keys() {
			if f.back || pauses || penalizes {
				continue
			}
			full, taken := staysOf(p)
			most := max(micros(m.Reset(at())+1)+time.Millisecond+full, taken-micros(f.now-granted))
			require.LessOrEqual(f, f.redis.TTL(key), most, "%v", log[max(0, len(log)-5):])
		}
	}
}

// staysOf returns how long the key of a policy exists after its permits have returned, and how long
// after a grant although no permit is taken.
func staysOf(p Policy) (full, taken time.Duration) {
	d, _ := policy.Of(p)
	switch d.Refill {
	case policy.Evenly, policy.OnCredit:
		return fullFor, 0
	case policy.Held: // a call of another lease finds those that have ended
		return d.Local.Interval, 2 * d.Local.Interval
	case policy.ByAge:
		if p, ok := p.(SlidingWindow); ok {
			return 0, p.Interval + p.Interval/time.Duration(p.cells())
		}
	}
	return 0, d.Local.Interval
}
