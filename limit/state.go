package limit

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// state is the forecasts of a limiter's policies after a call.
type state struct {
	now      int64 // Unix microseconds
	most     int64
	policies []forecast
	marks    []string // the texts of the policies: a refund of what the call took names them

	leased int64 // permits that were leased
	lasts  time.Duration
}

// add adds the script's reply about a policy. It reports whether the reply is valid.
func (s *state) add(p Policy, told rueidis.RedisMessage) bool {
	texts, err := told.ToArray()
	if err != nil || len(texts) == 0 {
		return false
	}
	mark, err := texts[0].ToString()
	if err != nil {
		return false
	}
	numbers := make([]int64, len(texts)-1)
	for i := range numbers {
		if numbers[i], err = texts[i+1].AsInt64(); err != nil {
			return false
		}
	}
	o, ok := p.forecast(s.now, numbers)
	if !ok {
		return false
	}
	if r, ok := o.(redissonForecast); ok {
		s.most = min(s.most, r.Limit()) // its rate is only in Redis
	}
	s.policies, s.marks = append(s.policies, o), append(s.marks, mark)
	return true
}

// granted returns the answer to a request that was granted. The same call granted later permits to
// requests behind it.
func (s *state) granted(later int64) engine.Answer {
	fewest := s.policies[0]
	for _, p := range s.policies[1:] {
		if p.left() < fewest.left() {
			fewest = p
		}
	}
	return engine.Answer{Allowed: true, Limit: fewest.limit(), Remaining: remaining(fewest, later), ResetAfter: s.reset()}
}

// Denied returns the answer to a request that was not granted. It returns false if RetryAfter is
// only a lower bound.
func (s *state) Denied(permits int64) (engine.Answer, bool) {
	longest, known := s.policies[0], true
	after := time.Duration(-1)
	for _, p := range s.policies {
		wait, ok := p.wait(permits)
		known = known && ok
		if wait > after {
			longest, after = p, wait
		}
	}
	return engine.Answer{Limit: longest.limit(), Remaining: remaining(longest, 0), RetryAfter: after,
		ResetAfter: s.reset()}, known
}

// each returns the answers of all policies to one request.
func (s *state) each(permits, later int64, granted bool) []engine.Answer {
	answers := make([]engine.Answer, len(s.policies))
	for i, p := range s.policies {
		a := engine.Answer{Allowed: granted, Limit: p.limit(), Remaining: remaining(p, later), ResetAfter: p.reset()}
		if !granted {
			a.RetryAfter, _ = p.wait(permits)
			a.Allowed = a.RetryAfter == 0
		}
		answers[i] = a
	}
	return answers
}

func remaining(p forecast, later int64) int64 { return max(0, p.left()+later) }

func (s *state) reset() (after time.Duration) {
	for _, p := range s.policies {
		after = max(after, p.reset())
	}
	return after
}

// Limit returns the largest number of permits that can be granted at once.
func (s *state) Limit() int64 { return s.most }

// Free returns the free permits of the policy that has the fewest.
func (s *state) Free() int64 {
	free := s.policies[0].left()
	for _, p := range s.policies[1:] {
		free = min(free, p.left())
	}
	return free
}

// Parts returns the answer of each policy to such a request.
func (s *state) Parts(permits int64) []engine.Answer { return s.each(permits, 0, false) }

// Earliest returns the time at which the last policy could have granted so many.
func (s *state) Earliest(wanted int64) (after time.Duration) {
	for _, p := range s.policies {
		after = max(after, p.earliest(wanted))
	}
	return after
}

// TighterThan reports whether a limiter of Redisson's layout was reconfigured. Limiters with other
// policies of this package have other IDs.
func (s *state) TighterThan(earlier engine.Forecast) bool {
	before, ok := earlier.(*state)
	if !ok {
		return true
	}
	for i, p := range s.policies {
		if r, ok := p.(redissonForecast); ok && r.TighterThan(before.policies[i].(redissonForecast).Forecast) {
			return true
		}
	}
	return false
}
