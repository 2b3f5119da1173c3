package guard

import (
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Settle changes the permits that a granted request has taken to its final cost. It has the guard's
// deadline, even if ctx has ended.
func (g *Guard) Settle(ctx context.Context, q Request, a Answer, cost int64) error {
	more := cost - q.Permits
	switch {
	case a.Result != limit.Acquired || more == 0:
		return nil
	case a.Local:
		g.local.settle(q, float64(g.mode), a.shares, more)
		return nil
	}
	b := g.breakerOf(q.Limiter)
	if b.isDown() {
		return b.downError(q.Limiter)
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), g.deadline)
	defer stop()
	err := settle(limited, q.Limiter, a.receipt, more)
	if err != nil {
		err = b.explain(q.Limiter, err)
		b.recordError(ctx, q.Limiter, err)
	} else {
		b.recordGrant()
	}
	return err
}

// Receipt returns the receipt of a granted request, also of one that Redis did not grant.
func (g *Guard) Receipt(q Request, a Answer) receipt.Receipt {
	if a.Result == limit.Acquired && !a.Local {
		return a.receipt
	}
	return receipt.Receipt{Permits: q.Permits, Local: func(more int64) {
		_ = g.Settle(context.Background(), q, a, q.Permits+more) // it cannot fail without Redis
	}}
}

// settles reports whether a request can be charged, or if more is false, refunded.
func settles(l Limiter, taken receipt.Receipt, more bool) bool {
	if more {
		_, ok := l.(charger)
		return ok
	}
	_, ok := l.(releaser)
	return ok || taken.Refund != nil
}

type charger interface {
	Charge(ctx context.Context, permits int64) (rratelimiter.Decision, error)
}

type releaser interface {
	Release(ctx context.Context, permits int64) error
}

// settle refunds permits by the receipt of a request, or charges more. A limiter of another type that
// has no receipt releases permits in its own way.
func settle(ctx context.Context, l Limiter, taken receipt.Receipt, more int64) error {
	if more < 0 {
		if taken.Refund != nil {
			return taken.Refund(ctx, -more)
		}
		if l, ok := l.(releaser); ok {
			return l.Release(ctx, -more)
		}
		return errors.ErrUnsupported
	}
	if l, ok := l.(charger); ok {
		_, err := l.Charge(ctx, more)
		return err
	}
	return errors.ErrUnsupported
}
