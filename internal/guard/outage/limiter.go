package outage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is a limiter of requests.
type Limiter = limit.Joinable

// handleOf returns the handle of a limiter, or the error of one that is zero.
func handleOf(l Limiter) (inside.Handle, error) {
	if h, ok := l.(inside.Handle); ok {
		return h, nil
	}
	if h, ok := inside.Of[inside.Handle](l); ok {
		return h, nil
	}
	return nil, fmt.Errorf("%w: open the limiter: a %T is zero", rratelimiter.ErrNoClient, l)
}

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

// chargeOf returns the call that charges more permits, nil if the limiter has none.
func chargeOf(l Limiter) receipt.Charge {
	h, _ := handleOf(l)
	if h, ok := h.(interface {
		ChargeMore(ctx context.Context, permits int64) error
	}); ok {
		return h.ChargeMore
	}
	return nil
}

// CanCharge reports whether a limiter can charge more permits than a call has taken.
func CanCharge(l Limiter) bool { return chargeOf(l) != nil }

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

// CheckLimiter returns the error with which every call of a limiter fails. It sends nothing to Redis.
func CheckLimiter(l Limiter) error {
	h, err := handleOf(l)
	if err != nil {
		return err
	}
	// A call whose context has ended reports invalid arguments first.
	if err := h.Try(ended, engine.Ask{Permits: 1}, new(engine.Result)); !errors.Is(err, context.Canceled) {
		return err
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
