package linear

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rratelimiter/rratelimiter"
)

// leased is the state of a limiter whose Clients lease permits: what callers got, the oldest first.
type leased struct {
	grants   []grant
	released int64 // when permits were released last: it is not known whose, since a lease is dated at its end
}

// Leased returns the model of a limiter whose Clients lease permits for at most a duration. It allows
// what the documentation of WithPrefetch does. Callers never get more than the rate in an interval. A
// leased permit that no caller has yet may be missing for the others, so any denial is right, and a
// lower number of remaining permits. Once all leases are flushed, a permit is missing for at most an
// interval and a lease after a caller got it.
func Leased(rate int64, interval, lease time.Duration) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return leased{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(leased).step(input.(Input), output.(Output), rate, interval, lease)
		},
		Equal: func(a, b any) bool {
			return a.(leased).released == b.(leased).released && slices.Equal(a.(leased).grants, b.(leased).grants)
		},
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// since returns how many permits callers certainly got after a time. Limiters count in whole
// milliseconds, always rounded down.
func (l leased) since(at int64) (permits int64) {
	for _, g := range l.grants {
		if g.from > at {
			permits += g.permits
		}
	}
	return permits
}

func (l leased) step(in Input, out Output, rate int64, interval, lease time.Duration) (ok bool, next leased) {
	next = leased{slices.Clone(l.grants), l.released}
	free := rate - l.since(in.To/1000-interval.Milliseconds())
	switch in.Call {
	case TryAcquire, Take:
		if in.Permits > rate {
			return errors.Is(out.Err, rratelimiter.ErrPermitsExceedRate), l
		}
		if allowed := out.Allowed || out.Decision.Allowed; !allowed {
			return out.Decision.Remaining <= max(0, free), l
		}
		next.grants = append(next.grants, grant{in.From / 1000, in.To / 1000, in.Permits})
		// A grant from a lease reports what was left when the lease began.
		return in.Permits <= free && (in.Leases || out.Decision.Remaining <= free-in.Permits), next
	case TakeUpTo:
		granted := out.Available
		if granted == 0 {
			return out.Decision.Remaining <= max(0, free), l
		}
		next.grants = append(next.grants, grant{in.From / 1000, in.To / 1000, granted})
		return granted <= min(free, in.Permits) && (in.Leases || out.Decision.Remaining <= free-granted), next
	case AvailablePermits:
		least := int64(0)
		if in.Settled && l.released <= in.From/1000-(interval+lease).Milliseconds() {
			least = rate - l.since(in.From/1000-(interval+lease).Milliseconds())
		}
		return out.Available <= max(0, free) && out.Available >= least, l
	case Release:
		next.release(in.Permits)
		next.released = in.To / 1000
		return true, next
	default:
		panic(in.Call)
	}
}

// release returns permits: here the newest ones, so that since stays a lower bound.
func (l *leased) release(permits int64) {
	for permits > 0 && len(l.grants) > 0 {
		last := &l.grants[len(l.grants)-1]
		n := min(permits, last.permits)
		permits -= n
		if last.permits -= n; last.permits == 0 {
			l.grants = l.grants[:len(l.grants)-1]
		}
	}
}
