package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Visit is a request that a middleware admitted, and the context of its handler. P is the protocol.
type Visit[P any] struct {
	context.Context
	Outcome limit.Outcome

	guard   *Guard
	request Request
	answer  Answer
	settled atomic.Int64 // the final cost, or one of the two constants below 0
}

const (
	unsettled = -1
	over      = -2 // the handler has returned
)

// HTTP is a protocol of visits. A gRPC server may be one of its handlers.
type HTTP struct{}

// GRPC is a protocol of visits.
type GRPC struct{}

type visitKey[P any] struct{}

// NewVisit returns the visit of an admitted request.
func NewVisit[P any](ctx context.Context, g *Guard, q Request, a Answer, o limit.Outcome) *Visit[P] {
	v := &Visit[P]{Context: ctx, Outcome: o, guard: g, request: q, answer: a}
	v.settled.Store(unsettled)
	return v
}

// Value returns the visit itself for its key.
func (v *Visit[P]) Value(key any) any {
	if key == (visitKey[P]{}) {
		return v
	}
	return v.Context.Value(key)
}

// VisitOf returns the innermost visit of a context, nil for none.
func VisitOf[P any](ctx context.Context) *Visit[P] {
	v, _ := ctx.Value(visitKey[P]{}).(*Visit[P])
	return v
}

// Settle sets the final cost of the request. It does nothing for a request that has taken no
// permits.
func (v *Visit[P]) Settle(cost int64) error {
	if cost < 0 {
		return fmt.Errorf("%w: a cost of %d to settle, want 0 or more", rratelimiter.ErrInvalidPermits, cost)
	}
	if v == nil || v.answer.Result != limit.Acquired {
		return nil
	}
	if cost-v.request.Permits > maxPermits {
		return fmt.Errorf("%w: a cost of %d to settle: at most 2^53 more permits can be charged",
			rratelimiter.ErrInvalidPermits, cost)
	}
	taken := v.request.Permits
	if cost != taken && !v.answer.Local && !settles(v.request.Limiter, v.answer.receipt, cost > taken) {
		return fmt.Errorf("a limiter of type %T has taken %d permits and cannot settle for %d: %w", v.request.Limiter,
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

// End applies Settle after the handler has returned.
func (v *Visit[P]) End() error {
	cost := v.settled.Swap(over)
	if cost < 0 {
		return nil
	}
	return v.guard.Settle(v.Context, v.request, v.answer, cost)
}
