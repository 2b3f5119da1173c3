package limit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// strictGrant is permits of a caller, or permits that were charged.
type strictGrant struct {
	server  int64 // Unix microseconds of the server's clock
	seen    int64 // as the state dates it, in units of the policy
	permits int64 // without those that were refunded
	late    int64 // of a waiter: how far back it is dated, microseconds
	grant
}

// strictHistory is the grants of one epoch, and the last call that changed its state.
type strictHistory struct {
	grants         []strictGrant
	begin          int64 // server's clock
	clock, changed int64 // the latest clock of such a call; server's clock
}

// strictPolicy is a policy with what it promises.
type strictPolicy struct {
	policies [2]Policy // that the name has in turn
	word     int       // of the text, that dates a grant
	// above returns by how many permits a grant is too large. It is the last one of the history.
	above func(p Policy, history *strictHistory) float64
	// left returns the permits of a history that still count for a clock and the server's.
	left func(p Policy, history *strictHistory, clock, server int64) float64
}

// evenly reports whether permits of a policy come free one after another.
func evenly(p Policy) bool {
	d, _ := policy.Of(p)
	return d.Refill == policy.Evenly || d.Refill == policy.OnCredit
}

// counted sums the grants that are not older than a span before the last one.
func counted(span int64) func(Policy, *strictHistory) float64 {
	return func(p Policy, history *strictHistory) float64 {
		sum, last := int64(0), history.grants[len(history.grants)-1].seen
		for _, g := range history.grants {
			if g.seen > last-span {
				sum += g.permits
			}
		}
		return float64(sum - mostOf(p))
	}
}

// leftOf sums the grants that count by both clocks. By the client's clock a grant counts while the
// date is less than a span later; by the server's, for so many microseconds.
func leftOf(unit, span, micros int64) func(Policy, *strictHistory, int64, int64) float64 {
	return func(_ Policy, history *strictHistory, clock, server int64) float64 {
		sum := int64(0)
		for _, g := range history.grants {
			if g.seen > max(clock, history.clock)/unit-span && server-g.server < micros {
				sum += g.permits
			}
		}
		return float64(sum)
	}
}

// missing returns the permits that the grants of a history take of a bucket at the time of the last
// one, which is not counted, without other grants.
func missing(history *strictHistory, perMicro float64) (before float64) {
	taken, at := 0.0, int64(0)
	for _, g := range history.grants {
		taken = max(0, taken-float64(g.seen-at)*perMicro)
		before, at = taken, g.seen
		taken += float64(g.permits)
	}
	return before
}

func bucketPolicy(perMicro float64, word int, policies ...Policy) strictPolicy {
	return strictPolicy{[2]Policy(policies), word, func(p Policy, history *strictHistory) float64 {
		last := history.grants[len(history.grants)-1]
		before := missing(history, perMicro) - float64(last.late)*perMicro
		if s, ok := p.(Smooth); ok {
			return before - s.curve().most
		}
		return before + float64(last.permits) - float64(mostOf(p))
	}, func(_ Policy, history *strictHistory, clock, server int64) float64 {
		last := history.grants[len(history.grants)-1]
		all := missing(history, perMicro) + float64(last.permits)
		return all - max(float64(max(clock, history.clock)-last.seen),
			float64(max(last.seen, history.clock)-last.seen+server-history.changed))*perMicro
	}}
}

// TestPolicies_RefundsResetsAndClocks_KeepTheLimit: the clocks of clients differ and jump. The
// clients take and charge permits and refund them, now or later, in part or as a whole. Meanwhile
// the state is reset, evicted or expires. Callers never have more permits than the policy grants,
// and no state begins while another one counts.
func TestPolicies_RefundsResetsAndClocks_KeepTheLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []strictPolicy{
		{[2]Policy{SlidingLog{10, time.Second}, SlidingLog{6, time.Second}}, 1, counted(1000), leftOf(1000, 1000, 1e6)},
		{[2]Policy{SlidingWindow{10, time.Second, 5}, SlidingWindow{6, time.Second, 5}}, 2, counted(6),
			leftOf(200_000, 6, 1.2e6)},
		bucketPolicy(8e-6, 1, TokenBucket{10, 8, time.Second}, TokenBucket{6, 8, time.Second}),
		bucketPolicy(8e-6, 1, LeakyBucket{10, 8, time.Second}, LeakyBucket{6, 8, time.Second}),
		bucketPolicy(8e-6, 2, Smooth{Permits: 8, Interval: time.Second}, Smooth{Permits: 8, Interval: time.Second}),
	} {
		t.Run(fmt.Sprintf("%T%+v", test.policies[0], test.policies[0]), func(t *testing.T) {
			count := make(map[string]int)
			for seed := range uint64(strictSeeds) {
				s := &strictRun{clocked: newClocked(t), strictPolicy: test, random: rand.New(rand.NewPCG(seed, 1)), count: count}
				s.back = true
				s.run(fmt.Sprintf("seed %d", seed))
			}
			for _, kind := range []string{"granted", "denied", "refund", "late refund", "history"} {
				assert.Greater(t, count[kind], strictSeeds*2, kind)
			}
			if evenly(test.policies[0]) {
				assert.Greater(t, count["late"], strictSeeds, "grants that are dated back")
			}
		})
	}
}

var strictSeeds = redistest.Deep(2, 12)

type strictRun struct {
	*clocked
	strictPolicy
	random    *rand.Rand
	count     map[string]int
	histories map[string]*strictHistory
	last      string // epoch
	gone      []strictGrant
}

func (s *strictRun) run(about string) {
	limiters := [2]*Limiter{New(s.client, "name", s.policies[0]), New(s.client, "name", s.policies[1])}
	offsets := []int64{0, 300_000, -200_000}
	s.histories = make(map[string]*strictHistory)
	var log []string
	for step := range 200 {
		passed := s.random.Int64N(1 + s.random.Int64N(400_000))
		if s.random.IntN(40) == 0 {
			passed += s.random.Int64N(3e6)
		}
		s.pass(micros(passed))
		caller := s.random.IntN(len(offsets))
		switch s.random.IntN(60) {
		case 0:
			offsets[caller] += s.random.Int64N(6e6) - 3e6
		case 1:
			offsets[caller] += s.random.Int64N(7.2e9) - 3.6e9
		case 2:
			offsets[caller] = 0
		}
		s.setClock(s.server + offsets[caller])
		l, what := limiters[0], ""
		if s.random.IntN(10) == 0 {
			l = limiters[1]
		}
		switch kind := s.random.IntN(40); {
		case kind == 0:
			what = "Reset"
			require.NoError(s, l.Reset(s.Context()))
			s.forget()
		case kind == 1:
			what = "eviction"
			s.redis.FlushAll()
			s.forget()
		case kind == 2:
			n := 1 + s.random.Int64N(3)
			what = fmt.Sprintf("Charge %d", n)
			redistest.Result(s, l.Charge, n)
			s.hold(l, n, nil, about+" "+what)
		case kind < 14:
			what = s.refund(l)
		default:
			n := 1 + s.random.Int64N(6)
			what = fmt.Sprintf("Take %d", n)
			batch := new(engine.Batch)
			if s.random.IntN(2) == 0 {
				batch.Ordered, batch.Backdate = true, micros(s.random.Int64N(1+s.random.Int64N(1e6)))
				what += fmt.Sprint(" since ", batch.Backdate)
			}
			s.askFor(l, batch, engine.Ask{Permits: n, Detail: s.random.IntN(2) == 0})
			if !batch.Requests[0].Allowed {
				s.count["denied"]++
				break
			}
			s.count["granted"]++
			what += fmt.Sprint(" ", s.grantOf(l, batch).receipts)
			s.hold(l, n, batch, fmt.Sprintf("%s, step %d at %d by %d: %s after %s", about, step,
				s.server-begin, s.now-begin, what, strings.Join(log[max(0, len(log)-12):], "; ")))
		}
		log = append(log, fmt.Sprintf("%d at %d by %d: %s -> %q", step, s.server-begin, s.now-begin, what, s.text()))
	}
}

// text returns the text of the state, "" for none.
func (s *strictRun) text() string {
	keys := s.redis.Keys()
	if len(keys) == 0 {
		return ""
	}
	if s.redis.Type(keys[0]) == "list" {
		list, err := s.redis.List(keys[0])
		require.NoError(s, err)
		return list[len(list)-1]
	}
	text, err := s.redis.Get(keys[0])
	require.NoError(s, err)
	return text
}

// hold records a grant, and checks it unless it was charged.
func (s *strictRun) hold(l *Limiter, permits int64, granted *engine.Batch, about string) {
	words := strings.Fields(s.text())
	require.NotEmpty(s, words, about)
	epoch := words[0]
	seen, err := strconv.ParseInt(words[s.word], 10, 64)
	require.NoError(s, err)
	p := l.protocol.members[0].policy
	if before := s.histories[s.last]; before != nil && s.last != epoch && len(before.grants) > 0 {
		s.count["history"]++
		assert.LessOrEqual(s, s.left(p, before, s.now, s.server), 1e-3, "permits of an epoch count after its end: %s", about)
	}
	history := s.histories[epoch]
	if history == nil {
		history = &strictHistory{begin: s.server}
		s.histories[epoch], s.last = history, epoch
	}
	require.Equal(s, epoch, s.last, about)
	grant := strictGrant{server: s.server, seen: seen, permits: permits}
	if granted != nil {
		grant.grant = s.grantOf(l, granted)
		if evenly(p) {
			grant.late = max(0, s.now-seen)
			require.LessOrEqual(s, grant.late, granted.Backdate.Microseconds(), about)
		}
		if grant.late > 0 {
			s.count["late"]++
		}
	}
	history.grants = append(history.grants, grant)
	history.clock, history.changed = max(history.clock, s.now), s.server
	if granted != nil {
		require.LessOrEqual(s, s.above(p, history), 1e-3, "%s", about)
	}
}

// forget ends all histories. Callers can refund their permits of these.
func (s *strictRun) forget() {
	for _, history := range s.histories {
		s.gone = append(s.gone, history.grants...)
	}
	s.histories, s.last = make(map[string]*strictHistory), ""
}

// refund refunds a grant, as a whole or in part: of this history, an older one, or one that was
// forgotten.
func (s *strictRun) refund(l *Limiter) string {
	var all []*strictGrant
	for _, epoch := range slices.Sorted(maps.Keys(s.histories)) {
		for i := range s.histories[epoch].grants {
			all = append(all, &s.histories[epoch].grants[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *strictGrant) int { return int(a.server - b.server) })
	for i := range s.gone {
		all = append(all, &s.gone[i])
	}
	all = slices.DeleteFunc(all, func(g *strictGrant) bool { return g.receipts == nil || g.permits == 0 })
	if len(all) == 0 {
		return "nothing to refund"
	}
	g := all[max(s.random.IntN(len(all)), s.random.IntN(len(all)))]
	n := g.permits
	if s.random.IntN(3) == 0 {
		n = 1 + s.random.Int64N(n)
	}
	before := s.text()
	require.NoError(s, l.protocol.refund(s.Context(), n, g.grant))
	s.count["refund"]++
	if s.server-g.server > 500_000 {
		s.count["late refund"]++
	}
	g.permits -= n
	if history := s.histories[s.last]; history != nil && s.text() != before {
		history.clock, history.changed = max(history.clock, s.now), s.server
	}
	return fmt.Sprintf("refund %d of %v", n, g.receipts)
}
