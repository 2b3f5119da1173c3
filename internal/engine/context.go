package engine

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Eval makes a call after other calls, usually none. While the slot of its keys moves, Eval
// repeats them all; renew, if not nil, sets the arguments of a repeated call. Callers run it under
// Detach, which ends with their context. A call of redisx.Once that has run before is
// redisx.ErrRanBefore.
func (g *Engine) Eval(ctx context.Context, before []redisx.Call, call redisx.Call,
	renew func(args []string)) (message rueidis.RedisMessage, err error) {
	call = call.ForOnce(ctx)
	for attempt := 0; attempt == 0 || redisx.Again(ctx, err, attempt); attempt++ {
		if attempt > 0 && renew != nil {
			renew(call.Args)
		}
		if message, err = call.Exec(ctx, g.redis, before); err == nil {
			err = redisx.RanBefore(message)
		}
	}
	return message, err
}

// callContext is the context of a call to Redis. Its Done is nil: when a context ends, rueidis
// closes the connection, which other callers use too. Its Err reports that the call must not be sent again: then
// neither this package nor rueidis, which follows redirections of a cluster, sends the call again.
type callContext struct {
	context.Context // only for its values
	err             func() error
}

func (callContext) Deadline() (deadline time.Time, ok bool) { return deadline, false }
func (callContext) Done() <-chan struct{}                   { return nil }
func (c callContext) Err() error                            { return c.err() }

// unattendedFor is how long a call is repeated that does not end with a caller.
const unattendedFor = time.Minute

// Unattended returns the context of a call that does not end with a caller. While the slot of its
// keys moves, it is repeated for a minute.
func Unattended(ctx context.Context) context.Context {
	begin := time.Now()
	return callContext{redisx.RetryUntilEnd(ctx), func() error {
		if time.Since(begin) < unattendedFor {
			return nil
		}
		return context.DeadlineExceeded
	}}
}

// Detach runs a call and returns its result, or the error of ctx as soon as ctx ends. A command
// that was sent by then is completed, and no other is sent: see callContext.
func Detach[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
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
		r := result{err: redisx.ErrNoReply} // until it returns
		defer func() { done <- r }()
		r.value, r.err = call(callContext{ctx, ctx.Err})
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
