package engine

import "context"

// Detached runs a call that ends by itself and gives its result, or the error of ctx as soon as ctx ends. What has been sent by
// then is not waited for, and nothing is sent after it: see callContext.
func Detached[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return call(ctx)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errBroken} // until it returns
		defer func() { done <- r }()
		r.value, r.err = call(callFor(ctx))
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Changing runs a call that changes limiters, as every call that does so is run: once it has ended, with an error too,
// and whoever still listens, those who wait for a limiter with one of these subjects ask again, and nothing is denied from
// memory that was known before. What is leased of them goes back first.
func Changing[T any](ctx context.Context, g *Engine, subjects []string, call func(context.Context) (T, error)) (T, error) {
	return Returning(ctx, g, subjects, func(ctx context.Context) (T, error) {
		recall := func() {
			for _, subject := range subjects {
				for _, back := range g.recall(subject) {
					_ = back(Unattended(ctx)) // else they leave the window
				}
			}
		}
		recall()
		defer recall() // what was leased meanwhile
		return call(ctx)
	})
}

// Returning is Changing for a call that gives permits back, which leaves leases as they are.
func Returning[T any](ctx context.Context, g *Engine, subjects []string, call func(context.Context) (T, error)) (T, error) {
	return Detached(ctx, func(ctx context.Context) (T, error) {
		defer func() {
			for _, subject := range subjects {
				g.changed(subject)
			}
		}()
		return call(ctx)
	})
}
