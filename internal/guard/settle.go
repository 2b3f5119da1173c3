package guard

import (
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter"
)

// Settle changes the permits that a granted request has taken to its final cost. It has the guard's
// deadline, even if ctx has ended.
func (g *Guard) Settle(ctx context.Context, q Request, a Answer, cost int64) error {
	more := cost - q.Permits
	switch {
	case a.Result != Acquired || more == 0:
		return nil
	case a.Local:
		g.own.local.settle(q, float64(g.mode), more)
		return nil
	case g.breaker.isDown():
		return ErrDown
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), g.deadline)
	defer stop()
	err := settle(limited, q.Limiter, more)
	if err != nil {
		g.breaker.failed(ctx, q.Limiter, err)
	} else {
		g.breaker.succeeded()
	}
	return err
}

// settles reports whether a limiter can charge, or if more is false, refund.
func settles(l Limiter, more bool) bool {
	if more {
		_, ok := l.(charger)
		return ok
	}
	_, ok := l.(releaser)
	return ok
}

type charger interface {
	Charge(ctx context.Context, permits int64) (rratelimiter.Decision, error)
}

type releaser interface {
	Release(ctx context.Context, permits int64) error
}

func settle(ctx context.Context, l Limiter, more int64) error {
	if more < 0 {
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
