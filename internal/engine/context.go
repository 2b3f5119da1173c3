package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// callContext is the context of a call to Redis. Its Done is nil: when a context ends, rueidis
// closes the connection, which other callers use too. Its Err reports that no caller is left: then
// neither this package nor rueidis, which follows redirections of a cluster, sends the call again.
type callContext struct {
	context.Context // only for its values
	err             func() error
}

func (callContext) Deadline() (deadline time.Time, ok bool) { return deadline, false }
func (callContext) Done() <-chan struct{}                   { return nil }
func (c callContext) Err() error                            { return c.err() }

// unattendedFor is how long a call for which no caller waits is repeated.
const unattendedFor = time.Minute

// Unattended returns the context of a call for which no caller waits. While the slot of its keys
// moves, it is repeated for as long.
func Unattended(ctx context.Context) context.Context { return unattended(ctx, func() {}) }

// unattended is Unattended for a call whose caller waits until late is called: when a call of its own
// would have failed.
func unattended(ctx context.Context, late func()) context.Context {
	begin := time.Now()
	return callContext{redisx.RetryUntilEnd(ctx, late), func() error {
		if time.Since(begin) < unattendedFor {
			return nil
		}
		return context.DeadlineExceeded
	}}
}

// MaxPages is the largest number of calls for one run of a script: enough for 16 million grants.
const MaxPages = 1 << 16

// Repeat returns an error if a script must not get another call: its caller has left, or it has had
// MaxPages calls.
func Repeat(ctx context.Context, calls int) error {
	if calls >= MaxPages {
		return fmt.Errorf("the script has not finished after %d calls", calls)
	}
	return ctx.Err()
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

// runOrAbort runs a function, and another one if the first panics or ends its goroutine. The panic
// continues.
func runOrAbort(run, broken func()) {
	returned := false
	defer func() {
		if !returned {
			broken()
		}
	}()
	run()
	returned = true
}
