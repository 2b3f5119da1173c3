package ruleset

import (
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Visit is a request that passes through its joint acquires, one after another.
type Visit struct {
	acquires []jointAcquire
	admitted []context.Context // of the acquires that admitted it
	served   bool
	settle   func(ctx context.Context, cost int64) error
}

type acquireContext struct {
	context.Context
	visit *Visit
	*jointAcquire
}

type acquireKey struct{}

func (c *acquireContext) Value(key any) any {
	if key == (acquireKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// acquireOf returns the innermost joint acquire of a context, nil for none.
func acquireOf(ctx context.Context) *acquireContext {
	c, _ := ctx.Value(acquireKey{}).(*acquireContext)
	return c
}

// LimiterOf returns the limiter of the acquire of a context, or why there is none.
func LimiterOf(ctx context.Context) (guard.Limiter, error) {
	c := acquireOf(ctx)
	return c.limiter, c.err
}

// CostOf returns the cost of the acquire of a context.
func CostOf(ctx context.Context) int64 { return acquireOf(ctx).cost }

func (v *Visit) next(ctx context.Context) *acquireContext {
	return &acquireContext{ctx, v, &v.acquires[len(v.admitted)]}
}

// Admit records that an acquire admitted the request. It reports whether it was the last one.
func (v *Visit) Admit(ctx context.Context) bool {
	v.admitted = append(v.admitted, ctx)
	v.served = len(v.admitted) == len(v.acquires)
	return v.served
}

// Release releases the permits of an acquire if a later one has denied the request.
func (v *Visit) Release(ctx context.Context) {
	if !v.served {
		_ = v.settle(ctx, 0) // the limiters of this package support it
	}
}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
func Matched(ctx context.Context) []string {
	if c := acquireOf(ctx); c != nil {
		return c.visit.rules()
	}
	return nil
}

func (v *Visit) rules() (names []string) {
	for i := range v.acquires {
		names = append(names, v.acquires[i].rules...)
	}
	return names
}

// Settle sets the final cost of a request for all rules that admitted it.
func Settle(ctx context.Context, cost int64) error {
	c := acquireOf(ctx)
	if c == nil || !c.visit.served {
		return nil
	}
	var failed []error
	for _, admitted := range c.visit.admitted {
		failed = append(failed, c.visit.settle(admitted, cost))
	}
	return errors.Join(failed...)
}
