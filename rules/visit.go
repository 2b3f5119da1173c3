package rules

import (
	"context"
	"errors"
	"sync/atomic"
)

// visit is a request that passes through its joint acquires, one after another.
type visit struct {
	acquires []jointAcquire
	admitted []context.Context // of the acquires that admitted it
	served   bool
	denied   atomic.Bool // the last message of a stream, after some acquires had admitted it
	settle   func(ctx context.Context, cost int64) error
}

// acquireContext is the context of a joint acquire.
type acquireContext struct {
	context.Context
	visit *visit
	*jointAcquire
}

type acquireKey struct{}

// Value returns the context itself for its key.
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

// next returns the context of the next acquire.
func (v *visit) next(ctx context.Context) *acquireContext {
	return &acquireContext{ctx, v, &v.acquires[len(v.admitted)]}
}

// admit records that an acquire admitted the request. It reports whether it was the last one.
func (v *visit) admit(ctx context.Context) bool {
	v.admitted = append(v.admitted, ctx)
	v.served = len(v.admitted) == len(v.acquires)
	return v.served
}

// release releases the permits of an acquire if a later one has denied the request.
func (v *visit) release(ctx context.Context) {
	if !v.served {
		_ = v.settle(ctx, 0) // the limiters of this package support it
	}
}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
// Call it with the context of the request, in its handler or in a callback of an option of
// [Set.Middleware] or [Set.UnaryServerInterceptor].
func Matched(ctx context.Context) []string {
	var names []string
	if c := acquireOf(ctx); c != nil {
		for i := range c.visit.acquires {
			names = append(names, c.visit.acquires[i].rules...)
		}
	}
	return names
}

// Settle sets the final cost of a request for all rules that admitted it. httplimit.Settle and
// grpclimit.Settle settle only with the last rule.
func Settle(ctx context.Context, cost int64) error {
	c := acquireOf(ctx)
	if c == nil || !c.visit.served || c.visit.denied.Load() {
		return nil
	}
	var failed []error
	for _, admitted := range c.visit.admitted {
		failed = append(failed, c.visit.settle(admitted, cost))
	}
	return errors.Join(failed...)
}
