package linear

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rratelimiter/rratelimiter"
)

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
