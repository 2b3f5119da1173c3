package gate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Visit is a request from the choice of its limiter to its end. A chooser sets the first fields, and Admit the others.
// A Visit is the context of the handler that gets the request, or of a refusal. R is a request of its protocol: a gRPC
// server may be a handler of HTTP.
type Visit[R Request[R]] struct {
	Settings    *Settings      // nil for those of the gate
	Ask         outage.Request // a chooser sets the Limiter, and the Permits if Cost has no effect
	Description *Description   // of the policies of the limiter; nil if there is none
	Banned      bool           // denied without a call of the limiter

	outage.Answer // a chooser sets Err if there is no limiter

	context.Context           // of the request
	Request         R         // in this context
	At              time.Time // of the answer
	Before          *Visit[R] // by which the request was decided and admitted before; or nil

	gate      *Gate[R]
	finalCost atomic.Int64 // the final cost, or one of the two constants below 0
}

const (
	unsettled       = -1
	handlerReturned = -2 // the handler has returned
)

type visitKey[R any] struct{}

type fileVisitKey struct{}

// Value returns the visit itself for its keys.
func (v *Visit[R]) Value(key any) any {
	switch key {
	case visitKey[R]{}:
		return v
	case fileVisitKey{}:
		if _, own := v.gate.Chooser.(Func[R]); !own {
			return v
		}
	}
	return v.Context.Value(key)
}

// OutcomeOf returns the Outcome of the innermost visit of a context, false for none.
func OutcomeOf[R Request[R]](ctx context.Context) (limit.Outcome, bool) {
	v, ok := ctx.Value(visitKey[R]{}).(*Visit[R])
	if !ok {
		return limit.Outcome{}, false
	}
	return v.Outcome, true
}

// overLimit makes a denial of a request that was over its limit at first, and whose context ended while it
// waited, unless its client has gone.
func (v *Visit[R]) overLimit(begin time.Time) {
	if v.Result != limit.Canceled || v.Decision.RetryAfter <= 0 || errors.Is(v.Err(), context.Canceled) {
		return
	}
	v.Result = limit.Rejected
	v.Decision.RetryAfter = max(1, v.Decision.RetryAfter-time.Since(begin))
}

// NotSent returns the error of an outgoing request that was refused. It wraps the error of the
// middleware, and the reason if there is one.
func (v *Visit[R]) NotSent(err error) error {
	after := v.Decision.RetryAfter
	// Whole seconds, so that equal errors have equal texts.
	seconds := time.Duration(RoundUp(after, time.Second)) * time.Second
	switch {
	case v.Outcome.Err != nil:
		return fmt.Errorf("%w: %w", err, v.Outcome.Err)
	case after > 0 && v.Decision.Limit == 0:
		return fmt.Errorf("%w: limiter %q: paused for %v", err, v.Limiter, seconds)
	case after > 0:
		return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time, but in %v", err, v.Limiter, v.Cost, seconds)
	}
	return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time", err, v.Limiter, v.Cost)
}

// SettleIn sets the final cost of the innermost visit of a context. It does nothing for a request that
// has taken no permits. Errors begin with the name of the package.
func SettleIn[R Request[R]](ctx context.Context, pkg string, cost int64) error {
	return settle(ctx.Value(visitKey[R]{}), pkg, cost)
}

// SettleByFile is SettleIn for the innermost visit that the rules of a file have decided.
func SettleByFile(ctx context.Context, pkg string, cost int64) error {
	return settle(ctx.Value(fileVisitKey{}), pkg, cost)
}

func settle(visit any, pkg string, cost int64) error {
	var err error
	if cost < 0 {
		err = fmt.Errorf("%w: a cost of %d to settle, want 0 or more", rratelimiter.ErrInvalidPermits, cost)
	} else if v, ok := visit.(interface{ settle(cost int64) error }); ok {
		err = v.settle(cost)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	return nil
}

// settle sets the final cost of a visit and of those before it.
func (v *Visit[R]) settle(cost int64) (err error) {
	if !v.Passes() {
		return nil
	}
	for ; v != nil; v = v.Before {
		if failed := v.setCost(cost); failed != nil {
			err = errors.Join(failed, err)
		}
	}
	return err
}

// maxPermits bounds what one settlement charges.
const maxPermits = 1 << 53

// setCost stores the final cost. After the handler, end settles it by Guard.Settle.
func (v *Visit[R]) setCost(cost int64) error {
	if v.Result != limit.Acquired {
		return nil
	}
	taken := v.Ask.Permits
	if cost-taken > maxPermits {
		return fmt.Errorf("%w: a cost of %d to settle: at most 2^53 more permits can be charged",
			rratelimiter.ErrInvalidPermits, cost)
	}
	if !v.canSettle(cost) {
		return fmt.Errorf("a limiter of type %T has taken %d permits and cannot settle for %d: %w", v.Ask.Limiter,
			taken, cost, errors.ErrUnsupported)
	}
	for {
		before := v.finalCost.Load()
		if before == handlerReturned {
			return errors.New("a final cost was set by Settle after the handler has returned")
		}
		if v.finalCost.CompareAndSwap(before, cost) {
			return nil
		}
	}
}

// canSettle reports whether the cost of a granted request can be changed to a final one.
func (v *Visit[R]) canSettle(cost int64) bool {
	switch taken := v.Ask.Permits; {
	case cost == taken || v.Local:
		return true
	case cost > taken:
		return outage.CanCharge(v.Ask.Limiter)
	}
	return v.Receipt.Refund != nil
}

// End settles the final cost of a request after its handler has returned, and returns what it has held.
// status is that of the response, 0 if it is unknown. If the request was refused, the visits before it are
// refunded.
//
// A client that has its response may send the next request at once. So if the grant left no place free, End waits
// until its place is returned, for at most a deadline.
func (v *Visit[R]) End(status int) {
	defer v.waitForPlaces()
	v.end(status, !v.Passes())
}

// end ends a visit and those before it, also if a callback panics. With free, the request costs nothing.
func (v *Visit[R]) end(status int, free bool) {
	if v.Before != nil {
		defer v.Before.end(status, free)
	}
	s, cost := v.Settings, v.finalCost.Swap(handlerReturned)
	if !s.Keeps || free || cost >= 0 {
		v.Return()
	}
	if free || cost == unsettled && !s.Keeps && status > 0 && s.Refunds != nil && s.Refunds(status) {
		cost = 0
	}
	if cost >= 0 {
		v.gate.reportUnsettled(v.Request, v.gate.guard.Settle(v.Context, v.Ask, v.Answer, cost))
	}
}

// waitForPlaces waits until the places are returned whose grants have left none free.
func (v *Visit[R]) waitForPlaces() {
	var ctx context.Context
	for g := v.gate; v != nil; v = v.Before {
		h := v.Receipt.Hold
		if h == nil || !h.Full || v.Settings.Keeps || g.guard.Down(v.Ask.Limiter) {
			continue
		}
		if ctx == nil {
			limited, stop := context.WithTimeout(context.WithoutCancel(v.Context), g.guard.Deadline())
			defer stop()
			ctx = limited
		}
		_ = h.Wait(ctx) // the Client repeats the return if it has failed
	}
}

// Return begins to return what a request has held, if it was limited. It does so once.
func (v *Visit[R]) Return() {
	if v != nil {
		v.Receipt.Hold.Return()
	}
}

// keep begins to renew what a request holds, if its end will be known. A panic of a callback is dropped.
func (v *Visit[R]) keep() {
	if v.Receipt.Hold == nil || v.Settings.Keeps {
		return
	}
	v.Receipt.Hold.Keep(func(err error) {
		defer func() { _ = recover() }()
		v.gate.reportUnsettled(v.Request, err)
	})
}
