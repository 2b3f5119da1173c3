package linear

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rratelimiter/rratelimiter"
)

// joined is the state of Redisson limiters that limit.Join takes permits of together.
type joined []limiter

// Joined returns the model of a Join of Redisson limiters with rates and one interval, on a clock
// that is set. Other calls are of the first limiter alone.
func Joined(rates []int64, interval time.Duration) porcupine.Model {
	var first joined
	for _, rate := range rates {
		first = append(first, limiter{rate: rate})
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{first} },
		Step: func(state, input, output any) []any {
			j, in, out := state.(joined), input.(Input), output.(Output)
			var next []any
			if out.lost() {
				next = append(next, j) // not applied
			}
			for _, counted := range j.counted(in.spans(), interval.Milliseconds()) {
				for _, at := range in.spans() {
					if after, ok := counted.step(in, out, at, interval.Milliseconds()); ok {
						next = append(next, after)
					}
				}
			}
			return next
		},
		Equal:             func(a, b any) bool { return slices.EqualFunc(a.(joined), b.(joined), equal) },
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return model.ToModel()
}

// counted returns the possible states before a call. Once an interval, a Join counts the permits of
// each of its limiters, in calls of their own. These remove expired grants, also for callers whose
// clocks are behind.
func (j joined) counted(times []span, interval int64) []joined {
	all := []joined{nil}
	for _, l := range j {
		var longer []joined
		for _, at := range append([]span{{}}, times...) { // the zero span: not counted
			for _, counted := range all {
				longer = append(longer, append(slices.Clone(counted), limiter{l.rate, l.unexpired(at, interval)}))
			}
		}
		all = longer
	}
	return all
}

// expire removes expired grants.
func (j joined) expire(at span, interval int64) joined {
	next := make(joined, len(j))
	for i, l := range j {
		next[i] = limiter{l.rate, l.unexpired(at, interval)}
	}
	return next
}

// step applies a call at a time. ok reports whether the model gives the answer of the call; if that
// was lost, any answer is right.
func (j joined) step(in Input, out Output, at span, interval int64) (next joined, ok bool) {
	if !in.Joined {
		next = slices.Clone(j)
		next[0], ok = j[0].step(in, out, at, interval)
		return next, ok
	}
	next = j.expire(at, interval)
	most, allowed := j[0].rate, true
	for _, l := range next {
		most, allowed = min(most, l.rate), allowed && l.free() >= in.Permits
	}
	if most == 0 || errors.Is(out.Err, rratelimiter.ErrNotInitialized) {
		return j, out.lost() || most == 0 && errors.Is(out.Err, rratelimiter.ErrNotInitialized)
	}
	if in.Permits > most || errors.Is(out.Err, rratelimiter.ErrPermitsExceedRate) {
		return j, out.lost() || in.Permits > most && errors.Is(out.Err, rratelimiter.ErrPermitsExceedRate)
	}
	if allowed {
		for i, l := range next {
			next[i], _ = l.take(Input{Call: TryAcquire, Permits: in.Permits}, Output{Allowed: true}, at, interval)
		}
	}
	if out.lost() || in.Call == TryAcquire {
		return next, out.lost() || out.Allowed == allowed
	}
	return next, next.decides(out.Decision, allowed, in.Permits, at, interval)
}

// decides reports whether a Decision is right after a request.
func (j joined) decides(d rratelimiter.Decision, allowed bool, permits int64, at span, interval int64) bool {
	limits, retry, reset := false, d.RetryAfter == 0, false
	fewest := j[0].free()
	for _, l := range j {
		fewest = min(fewest, l.free())
	}
	for _, l := range j {
		denies := l.returns(permits, d.RetryAfter, at, interval)
		reset = reset || l.returns(l.rate, d.ResetAfter, at, interval)
		retry = retry || denies
		limits = limits || d.Limit == l.rate && d.Remaining == max(0, l.free()) && (allowed && l.free() == fewest || denies)
	}
	return d.Allowed == allowed && (d.RetryAfter == 0) == allowed && limits && retry && reset &&
		!slices.ContainsFunc(j, func(l limiter) bool { // no limiter denies for longer
			return !allowed && l.free() < permits && l.earlier(permits, d.RetryAfter, at, interval) ||
				l.earlier(l.rate, d.ResetAfter, at, interval)
		})
}

// earlier reports whether so many permits are not yet free after a duration.
func (l limiter) earlier(permits int64, after time.Duration, at span, interval int64) bool {
	free := l.free()
	for _, g := range l.grants {
		if g.from <= at.from+after.Milliseconds()-interval || g.from > at.from {
			free += g.permits
		}
	}
	return free < permits
}
