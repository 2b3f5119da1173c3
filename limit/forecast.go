package limit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// forecast is the state of one policy after a call. The exported methods are those of
// [engine.Forecast] for this policy. A policy embeds usage, which has them where nothing is special.
type forecast interface {
	Limit() int64 // of a Decision
	Free() int64
	Earliest(ahead, permits int64) time.Duration

	// wait returns the time until so many permits are free. If known is false, the script did not
	// report that far, and the time is a lower bound.
	wait(permits int64) (after time.Duration, known bool)

	// reset returns the time until no permit is taken. It leaves out the last so many permits of the
	// call, as a request before them saw it.
	reset(later int64) time.Duration
}

// waitForecast is a forecast of which another one is for callers that wait: a section "credit" grants them other
// permits than callers that do not.
type waitForecast interface{ forWaiters(share bool) forecast }

// usage is the permits of a policy, and how many of them are taken.
type usage struct{ permits, taken int64 }

func (o usage) Limit() int64 { return o.permits }

func (o usage) Free() int64 { return o.permits - o.taken }

// state is the forecasts of a limiter's policies after a call.
type state struct {
	most     int64
	plan     *plan
	policies []forecast
	receipts []string // the texts of the policies: a refund of what the call took names them

	shared engine.Rivals
	rank   time.Duration // how much later to ask, since other Clients come first
	held   time.Duration // what is free is held for waiters of other Clients for so long; 0: it is not

	prefetched int64 // permits that were prefetched
	lasts      time.Duration
}

// add reads the script's reply about a member.
func (s *state) add(m member, r *redisx.Reply) {
	values := redisx.ReadReply(r.Next())
	text, f := values.Text(), m.policy.forecast(&values)
	if !values.Ended() {
		r.Fail()
		return
	}
	if m.redisson != nil {
		s.most = min(s.most, f.Limit())
	}
	s.policies, s.receipts = append(s.policies, f), append(s.receipts, text)
}

// forWaiters makes the forecasts those of callers that wait, and reports whether they differ.
func (s *state) forWaiters(share bool) (differ bool) {
	for i, p := range s.policies {
		if of, ok := p.(waitForecast); ok {
			s.policies[i], differ = of.forWaiters(share), true
		}
	}
	return differ
}

// Granted returns the answer to a request that was granted. The same call granted later permits to
// requests behind it.
func (s *state) Granted(later int64) engine.Decision {
	fewest := s.fewest()
	return engine.Decision{
		Allowed: true, Limit: s.limitOf(fewest), Remaining: max(0, fewest.Free()+later), ResetAfter: s.reset(later),
	}
}

// limitOf returns the limit of a policy. For a Pause, which has none, it is that of the policy beside
// it with the fewest free permits.
func (s *state) limitOf(p forecast) int64 {
	limit, free := p.Limit(), int64(math.MaxInt64)
	if limit > 0 {
		return limit
	}
	for _, other := range s.policies {
		if other.Limit() > 0 && other.Free() < free {
			limit, free = other.Limit(), other.Free()
		}
	}
	return limit
}

// Denied returns the answer to a request that was not granted. It returns false if RetryAfter is
// only a lower bound.
func (s *state) Denied(permits int64) (engine.Decision, bool) {
	longest, known := s.policies[0], s.held == 0
	after := s.held - 1
	for _, p := range s.policies {
		wait, ok := p.wait(permits)
		known = known && ok
		if wait > after {
			longest, after = p, wait
		}
	}
	after = max(after, s.held)
	return engine.Decision{Limit: s.limitOf(longest), Remaining: max(0, longest.Free()), RetryAfter: after,
		ResetAfter: s.reset(0)}, known
}

// GrantedParts returns the answer of each policy to such a request.
func (s *state) GrantedParts(later int64) []engine.Decision {
	answers := make([]engine.Decision, len(s.policies))
	for i, p := range s.policies {
		answers[i] = engine.Decision{
			Allowed: true, Limit: p.Limit(), Remaining: max(0, p.Free()+later), ResetAfter: p.reset(later),
		}
	}
	return answers
}

// Parts returns the answer of each policy to a request that was not granted.
func (s *state) Parts(permits int64) []engine.Decision {
	answers := s.GrantedParts(0)
	for i, p := range s.policies {
		answers[i].RetryAfter, _ = p.wait(permits)
		answers[i].Allowed = answers[i].RetryAfter == 0
	}
	return answers
}

func (s *state) reset(later int64) (after time.Duration) {
	for _, p := range s.policies {
		after = max(after, p.reset(later))
	}
	return after
}

// Limit returns the largest number of permits that can be granted at once.
func (s *state) Limit() int64 { return s.most }

// Free returns the free permits of the policy that has the fewest.
func (s *state) Free() int64 { return s.fewest().Free() }

// fewest returns the first policy with the fewest free permits.
func (s *state) fewest() forecast {
	return slices.MinFunc(s.policies, func(a, b forecast) int { return cmp.Compare(a.Free(), b.Free()) })
}

// longestSpread bounds the time by which the waiters of a bucket ask later.
const longestSpread = 5 * time.Millisecond

// Lag returns the longest of the limiters of Redisson's layout. The waiters of a bucket ask later at random, so that
// several Clients need fewer calls. The time is at most a fifth of that in which the permits of all waiters come free.
// No permit is lost by it, since grants are dated when their permits came free. See engine.Batch.
func (s *state) Lag(wanted int64) (lag time.Duration) {
	if s.plan.spread > 0 {
		most := min(repeat(s.plan.spread, wanted), s.plan.client.WaitJitter, longestSpread)
		lag = time.Duration(float64(most) * rand.Float64())
	}
	for _, p := range s.policies {
		if joined, ok := p.(redissonForecast); ok {
			lag = max(lag, joined.Lag(wanted))
		}
	}
	return max(lag, s.rank)
}

// Renew returns the earliest of the limiters of Redisson's layout.
func (s *state) Renew() time.Duration {
	after := engine.Never
	for _, p := range s.policies {
		if joined, ok := p.(redissonForecast); ok {
			after = min(after, joined.Renew())
		}
	}
	return after
}

// Earliest returns the time at which the last policy could have granted all of them.
func (s *state) Earliest(ahead, permits int64) (after time.Duration) {
	for _, p := range s.policies {
		after = max(after, p.Earliest(ahead, permits))
	}
	return after
}

// returnsForecast is the state of permits that return one after another, an interval after they
// were taken or later.
type returnsForecast struct {
	usage
	interval time.Duration
	end      time.Duration   // from now until the last ones return
	returns  []permitsReturn // the earliest first, as far as the script reported
}

// permitsReturn is the number of permits that return within a time, earlier ones included.
type permitsReturn struct {
	after   time.Duration
	permits int64
}

// returnsOf reads the taken permits, the time at which the last of them return, and then pairs of a
// time and the permits that return then.
func returnsOf(permits int64, interval time.Duration, r *redisx.Reply) forecast {
	o := returnsForecast{usage: usage{permits, r.Number()}, end: micros(r.Number()), interval: interval}
	for sum := int64(0); r.Len() > 0; {
		after, returns := micros(r.Number()), r.Number()
		sum = min(sum, maxPermits) + returns
		o.returns = append(o.returns, permitsReturn{after, sum})
	}
	return o
}

func (o returnsForecast) wait(permits int64) (after time.Duration, known bool) {
	need := permits - o.Free()
	if need <= 0 || len(o.returns) == 0 {
		return 0, need <= 0
	}
	last := len(o.returns) - 1
	i := sort.Search(last, func(i int) bool { return o.returns[i].permits >= need })
	return o.returns[i].after, o.returns[i].permits >= need
}

func (o returnsForecast) reset(int64) time.Duration { return o.end }

// Earliest: if more is wanted than the window holds, the granted permits have to return, which
// takes an interval each time.
func (o returnsForecast) Earliest(ahead, permits int64) time.Duration {
	wanted := ahead + permits
	rounds := (wanted - 1) / o.permits
	after, _ := o.wait(wanted - rounds*o.permits)
	return add(after, repeat(o.interval, rounds))
}

// micros converts microseconds to a duration, at most engine.Never.
func micros(n int64) time.Duration {
	if n > int64(engine.Never/time.Microsecond) {
		return engine.Never
	}
	return time.Duration(n) * time.Microsecond
}

// add returns the sum of two durations, at most engine.Never.
func add(a, b time.Duration) time.Duration {
	if b > 0 && a > engine.Never-b {
		return engine.Never
	}
	return a + b
}

// repeat returns a duration so many times, at most engine.Never.
func repeat(d time.Duration, times int64) time.Duration {
	if times > int64(engine.Never/d) {
		return engine.Never
	}
	return d * time.Duration(times)
}
