package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Visit is a request that a middleware admitted, and the context of its handler. R is a request of its
// protocol: a gRPC server may be a handler of HTTP.
type Visit[R any] struct {
	context.Context
	gate    *Gate[R]
	decided *Decided
	settled atomic.Int64 // the final cost, or one of the two constants below 0
}

const (
	unsettled = -1
	over      = -2 // the handler has returned
)

type visitKey[R any] struct{}

// Visit returns the visit of an admitted request.
func (g *Gate[R]) Visit(ctx context.Context, d *Decided) *Visit[R] {
	v := &Visit[R]{Context: ctx, gate: g, decided: d}
	v.settled.Store(unsettled)
	return v
}

// Value returns the visit itself for its key.
func (v *Visit[R]) Value(key any) any {
	if key == (visitKey[R]{}) {
		return v
	}
	return v.Context.Value(key)
}

// OutcomeOf returns the Outcome of the innermost visit of a context, false for none.
func OutcomeOf[R any](ctx context.Context) (limit.Outcome, bool) {
	v, ok := ctx.Value(visitKey[R]{}).(*Visit[R])
	if !ok {
		return limit.Outcome{}, false
	}
	return v.decided.Outcome, true
}

// SettleIn sets the final cost of the innermost visit of a context. It does nothing for a request that
// has taken no permits. Errors begin with the name of the package.
func SettleIn[R any](ctx context.Context, pkg string, cost int64) error {
	v, _ := ctx.Value(visitKey[R]{}).(*Visit[R])
	if err := v.settle(cost); err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	return nil
}

func (v *Visit[R]) settle(cost int64) error {
	if cost < 0 {
		return fmt.Errorf("%w: a cost of %d to settle, want 0 or more", rratelimiter.ErrInvalidPermits, cost)
	}
	if v == nil || v.decided.Result != limit.Acquired {
		return nil
	}
	d := v.decided
	taken := d.Request.Permits
	if cost-taken > maxPermits {
		return fmt.Errorf("%w: a cost of %d to settle: at most 2^53 more permits can be charged",
			rratelimiter.ErrInvalidPermits, cost)
	}
	if cost != taken && !d.Local && !settles(d.Request.Limiter, d.receipt, cost > taken) {
		return fmt.Errorf("a limiter of type %T has taken %d permits and cannot settle for %d: %w", d.Request.Limiter,
			taken, cost, errors.ErrUnsupported)
	}
	for {
		before := v.settled.Load()
		if before == over {
			return errors.New("Settle after the handler has returned")
		}
		if v.settled.CompareAndSwap(before, cost) {
			return nil
		}
	}
}

// End settles the final cost of a request after its handler has returned. status is that of the
// response, 0 if it is unknown.
func (v *Visit[R]) End(r R, status int) {
	cost := v.settled.Swap(over)
	if cost == unsettled && status > 0 && v.gate.Refunds != nil && v.gate.Refunds(status) {
		cost = 0
	}
	if cost < 0 {
		return
	}
	if err := v.gate.Settle(v.Context, v.decided.Request, v.decided.Answer, cost); err != nil && v.gate.Unsettled != nil {
		v.gate.Unsettled(r, err)
	}
}
