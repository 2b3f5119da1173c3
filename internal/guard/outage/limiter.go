package outage

// The parts of a limiter that need no call to Redis: its policies, the validity of its arguments.

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// IsNil reports whether l is nil or holds a nil pointer.
func IsNil(l limit.Joinable) bool {
	v := reflect.ValueOf(l)
	return l == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// chargeOf returns the call that charges more permits, nil if the limiter has none.
func chargeOf(l limit.Joinable) receipt.Charge {
	if h, ok := inside.HandleOf(l); ok {
		return h.ChargeMore()
	}
	return nil
}

// CanCharge reports whether a limiter can charge more permits than a call has taken.
func CanCharge(l limit.Joinable) bool { return chargeOf(l) != nil }

// errZero returns the error of a limiter without a handle, which is zero.
func errZero(l limit.Joinable) error {
	return fmt.Errorf("%w: open the limiter: a %T is zero", rratelimiter.ErrNoClient, l)
}

// CheckLimiter returns the error with which every call of a limiter fails. It sends nothing to Redis.
func CheckLimiter(l limit.Joinable) error {
	h, ok := inside.HandleOf(l)
	if !ok {
		return errZero(l)
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

// membersOf returns the limiter of each policy of a limiter, none for an invalid one.
func membersOf(l limit.Joinable) []inside.Member {
	h, ok := inside.HandleOf(l)
	if !ok {
		return nil
	}
	return h.Members()
}

// localPolicyOf returns the policy of a member, with the initial rate of one of Redisson's layout; nil if it is unknown.
func localPolicyOf(m inside.Member) limit.Policy {
	if m.Permits > 0 {
		return limit.SlidingLog{Permits: m.Permits, Interval: m.Interval}
	}
	p, _ := m.Policy.(limit.Policy)
	return p
}

// PoliciesOf returns the policies that a limiter was opened with, nil for one that is unknown.
func PoliciesOf(l limit.Joinable) (all []limit.Policy) {
	for _, m := range membersOf(l) {
		all = append(all, localPolicyOf(m))
	}
	return all
}

// isHeld reports whether the permits of a policy are held until they are returned.
func isHeld(p limit.Policy) bool {
	d, _ := policy.Of(p)
	return d.Refill == policy.Held
}
