package rules

import (
	"context"
	"errors"
	"sync/atomic"
)

// visit is a request that passes through its evaluations.
type visit struct {
	evaluations []evaluation
	admitted    []context.Context // of the evaluations that admitted it
	served      bool
	denied      atomic.Bool // the last message of a stream, after some evaluations had admitted it
	settle      func(ctx context.Context, cost int64) error
}

// evaluationContext is the context of an evaluation.
type evaluationContext struct {
	context.Context
	visit *visit
	*evaluation
}

type evaluationKey struct{}

// Value returns the context itself for its key.
func (c *evaluationContext) Value(key any) any {
	if key == (evaluationKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// evaluationOf returns the innermost evaluation of a context, nil for none.
func evaluationOf(ctx context.Context) *evaluationContext {
	c, _ := ctx.Value(evaluationKey{}).(*evaluationContext)
	return c
}

// next returns the context of the next evaluation.
func (v *visit) next(ctx context.Context) *evaluationContext {
	return &evaluationContext{ctx, v, &v.evaluations[len(v.admitted)]}
}

// admit records that an evaluation admitted the request. It reports whether it was the last one.
func (v *visit) admit(ctx context.Context) bool {
	v.admitted = append(v.admitted, ctx)
	v.served = len(v.admitted) == len(v.evaluations)
	return v.served
}

// release releases the permits of an evaluation if a later one has denied the request.
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
	if c := evaluationOf(ctx); c != nil {
		for i := range c.visit.evaluations {
			names = append(names, c.visit.evaluations[i].rules...)
		}
	}
	return names
}

// Settle sets the final cost of a request for all rules that admitted it. httplimit.Settle and
// grpclimit.Settle settle only with the last rule.
func Settle(ctx context.Context, cost int64) error {
	c := evaluationOf(ctx)
	if c == nil || !c.visit.served || c.visit.denied.Load() {
		return nil
	}
	var failed []error
	for _, admitted := range c.visit.admitted {
		failed = append(failed, c.visit.settle(admitted, cost))
	}
	return errors.Join(failed...)
}
