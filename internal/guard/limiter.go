package guard

import (
	"context"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is a limiter of requests. Of another type than those of this module, a guard also uses these
// methods, if present: TakeEach, TryAcquireWithin, Acquire, Release, Charge, Peek, AvailablePermits,
// Pause, Policies and Unwrap.
type Limiter = limit.Joinable

// handleOf returns the handle of a limiter of this module, nil for another type. One that embeds such a
// limiter is called by its own methods.
func handleOf(l Limiter) inside.Handle {
	switch l := l.(type) {
	case *limit.Limiter:
		return l.Inside(inside.Key{})
	case *rratelimiter.Limiter:
		return l.Inside(inside.Key{})
	case inside.Handle:
		return l
	}
	return nil
}

// unwrap returns the limiter that a wrapper calls, and any other one as it is.
func unwrap(l Limiter) Limiter {
	if w, ok := l.(interface{ Unwrap() Limiter }); ok {
		return w.Unwrap()
	}
	return l
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

// takeFrom takes permits of a limiter of another type.
func takeFrom(ctx context.Context, q Request, each bool) (a Answer, err error) {
	a.Receipt = receipt.Receipt{Permits: q.Permits, Refund: refundOf(q.Limiter)}
	if l, ok := q.Limiter.(interface {
		TakeEach(ctx context.Context, permits int64) ([]rratelimiter.Decision, error)
	}); ok && each {
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

// probe asks whether Redis can grant. For a limiter of this module it sets a key of its own for a
// millisecond, unless there is one: a call that only reads would succeed where writes fail. Of another type
// it calls Peek or AvailablePermits; without these, it takes a permit, and releases it if possible.
func probe(ctx context.Context, l Limiter) error {
	l = unwrap(l)
	if h := handleOf(l); h != nil {
		if g, key, ok := h.Node(); ok {
			set := g.Redis().B().Set().Key("{" + redisx.Tag(key) + "}:probe").Value("").Nx().PxMilliseconds(1).Build()
			_, err := engine.Detach(ctx, func(ctx context.Context) (m rueidis.RedisMessage, err error) {
				defer func() {
					if recover() != nil { // of the client: no request made the call
						err = redisx.ErrNoReply
					}
				}()
				return redisx.Do(ctx, g.Redis(), set)
			})
			if rueidis.IsRedisNil(err) {
				return nil
			}
			return err
		}
	}
	switch l := l.(type) {
	case interface {
		Peek(ctx context.Context) ([]rratelimiter.Decision, error)
	}:
		_, err := l.Peek(ctx)
		return err
	case interface {
		AvailablePermits(ctx context.Context) (int64, error)
	}:
		_, err := l.AvailablePermits(ctx)
		return err
	}
	d, err := l.Take(ctx, 1)
	if refund := refundOf(l); err == nil && d.Allowed && refund != nil { // without it, the permit stays taken
		_ = refund(ctx, 1)
	}
	return err
}

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

// Member is a limiter that one call of Redis may decide with others.
type Member struct {
	Limiter  limit.Joinable
	Policies []limit.Policy // of the limiter
	// Shared permits several members of one limiter, from which the call takes once.
	Shared bool
}

// Joint is members that one call decides: all take their permits, or none does.
type Joint []Member

// With returns a Joint with one more member. It returns false if one call cannot decide all: if they
// have too many policies, a limiter is there twice, or on a cluster, they have different slots.
func (j Joint) With(m Member, cluster bool) (Joint, bool) {
	policies := len(m.Policies)
	for _, other := range j {
		name, added := other.Limiter.Name(), m.Limiter.Name()
		switch {
		case cluster && redisx.Tag(name) != redisx.Tag(added):
			return j, false
		case name == added && other.Shared == m.Shared:
			return j, m.Shared
		}
		policies += len(other.Policies)
	}
	if policies > policy.MaxJoined {
		return j, false
	}
	return append(slices.Clip(j), m), true
}

// Limiter returns one limiter for all members, and their policies.
func (j Joint) Limiter() (Limiter, []limit.Policy) {
	if len(j) == 1 {
		return j[0].Limiter, j[0].Policies
	}
	var limiters []limit.Joinable
	var policies []limit.Policy
	for _, m := range j {
		limiters, policies = append(limiters, m.Limiter), append(policies, m.Policies...)
	}
	return limit.Join(limiters...), policies
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
