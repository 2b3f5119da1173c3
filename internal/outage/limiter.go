package outage

import (
	"context"
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is a limiter of requests. Of another type than those of this module, a guard also uses these
// methods, if present: TakeEach, TryAcquireWithin, Acquire, Release, Charge, Peek, AvailablePermits,
// Pause, Policies and Unwrap.
type Limiter = limit.Joinable

// handleOf returns the handle of a limiter, nil for one that wraps another one, with a method Unwrap: it is called by
// its own methods.
func handleOf(l Limiter) inside.Handle {
	switch l := l.(type) {
	case inside.Handle:
		return l
	case interface{ Unwrap() Limiter }:
		return nil
	}
	h, _ := inside.Of[inside.Handle](l)
	return h
}

// unwrap returns the limiter that a wrapper calls, and any other one as it is.
func unwrap(l Limiter) Limiter {
	if w, ok := l.(interface{ Unwrap() Limiter }); ok {
		return w.Unwrap()
	}
	return l
}

// IsOurs reports whether a limiter, or the one that it wraps, is of this module.
func IsOurs(l Limiter) bool { return handleOf(unwrap(l)) != nil }

// IsNil reports whether l is nil or holds a nil value.
func IsNil(l Limiter) bool {
	if l == nil {
		return true
	}
	v := reflect.ValueOf(l)
	switch v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return v.IsNil()
	}
	return false
}

// takeFrom takes permits of a limiter of another type.
func takeFrom(ctx context.Context, q Request) (a Answer, err error) {
	a.Receipt = receipt.Receipt{Permits: q.Permits, Refund: refundOf(q.Limiter)}
	if l, ok := q.Limiter.(interface {
		TakeEach(ctx context.Context, permits int64) ([]rratelimiter.Decision, error)
	}); ok && q.ofEngine().Each {
		if a.Each, err = l.TakeEach(ctx, q.Permits); err == nil {
			a.Decision = combineDecisions(a.Each)
		}
		return a, err
	}
	a.Decision, err = q.Limiter.Take(ctx, q.Permits)
	return a, err
}

// refundOf returns the refund of a limiter of another type: it releases the permits, if it can.
func refundOf(l any) receipt.Refund {
	if l, ok := l.(interface {
		Release(ctx context.Context, permits int64) error
	}); ok {
		return l.Release
	}
	return nil
}

// chargeOf returns the call that charges more permits, nil if the limiter has none.
func chargeOf(l Limiter) receipt.Charge {
	if h, ok := handleOf(l).(interface {
		ChargeMore(ctx context.Context, permits int64) error
	}); ok {
		return h.ChargeMore
	}
	charger, ok := l.(interface {
		Charge(ctx context.Context, permits int64) (rratelimiter.Decision, error)
	})
	if !ok {
		return nil
	}
	return func(ctx context.Context, permits int64) error {
		_, err := charger.Charge(ctx, permits)
		return err
	}
}

// CanCharge reports whether a limiter can charge more permits than a call has taken.
func CanCharge(l Limiter) bool { return chargeOf(l) != nil }

// hasQueue reports whether requests can wait in a queue of the limiter's own.
func hasQueue(l Limiter) bool {
	_, ok := l.(queuer)
	return ok || handleOf(l) != nil
}

// queuer is the methods of a limiter in whose own queue requests wait for permits.
type queuer interface {
	TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Acquire(ctx context.Context, permits int64) error
}

// Shown returns the index of the decision that clients see of several: the denial with the longest time
// to retry, or else the grant with the fewest permits left.
func Shown(each []rratelimiter.Decision) int {
	shown := 0
	for i, one := range each {
		best := each[shown]
		switch {
		case one.Allowed != best.Allowed:
			if best.Allowed {
				shown = i
			}
		case one.Allowed && one.Remaining < best.Remaining, !one.Allowed && one.RetryAfter > best.RetryAfter:
			shown = i
		}
	}
	return shown
}

// combineDecisions combines the decisions of several policies, as limit.Limiter.Take does.
func combineDecisions(each []rratelimiter.Decision) (d rratelimiter.Decision) {
	if len(each) == 0 {
		return d
	}
	d = each[Shown(each)]
	ofPause, fewest := d.Limit == 0, int64(math.MaxInt64)
	for _, one := range each {
		d.ResetAfter = max(d.ResetAfter, one.ResetAfter)
		if ofPause && one.Limit > 0 && one.Remaining < fewest { // a Pause has none of its own
			d.Limit, fewest = one.Limit, one.Remaining
		}
	}
	return d
}

// CheckLimiter returns the error with which every call of a limiter fails. It sends nothing to Redis,
// and returns no error of limiters of other types, which might.
func CheckLimiter(l Limiter) error {
	switch l := unwrap(l).(type) {
	case *limit.Limiter, *rratelimiter.Limiter:
		// A call whose context has ended reports invalid arguments first.
		if _, err := l.Take(ended, 1); !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// HasShare reports whether the policies of a limiter are known.
func HasShare(l Limiter) bool {
	keys, _ := sharesOf(Request{Limiter: l}, 1)
	return keys != nil
}
