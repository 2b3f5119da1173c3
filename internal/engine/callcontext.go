package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// callContext is the context of a call to Redis. Its Done is nil, since rueidis answers the end of a context by closing a
// connection that others use. Its Err reports that no caller is left for the call: then nothing is sent again, by this
// package or by rueidis, which repeats what a cluster redirects.
type callContext struct {
	context.Context // of the values alone
	err             func() error
}

func (c callContext) Err() error { return c.err() }

// callFor returns the context of a call that ends with ctx.
func callFor(ctx context.Context) context.Context {
	return callContext{context.WithoutCancel(ctx), ctx.Err}
}

// unattendedFor is how long a call for which no caller waits is repeated.
const unattendedFor = time.Minute

// Unattended returns the context of a call for which no caller waits.
func Unattended(ctx context.Context) context.Context {
	begin := time.Now()
	return callContext{context.WithoutCancel(ctx), func() error {
		if time.Since(begin) < unattendedFor {
			return nil
		}
		return context.DeadlineExceeded
	}}
}

// context returns the context of a batch's call, which ends with the last of its callers. A lease that it may bring keeps it
// for as long as that could be used.
func (b *Batch) context(ctx context.Context) context.Context {
	return callContext{context.WithoutCancel(ctx), func() error {
		if atomic.LoadInt32(&b.callers) > 0 || b.Lease.Span > 0 && time.Since(b.sent) < b.Lease.Span {
			return nil
		}
		return context.Canceled
	}}
}

// MostPages is how many calls one script takes at most to do all of its work. It is far more than any state needs.
const MostPages = 1 << 16

// errEndless is the error of a script that does not finish.
var errEndless = errors.New("the script has not finished")

// Repeat returns an error where a script that wants another call does not get it: its caller has gone, or it has had
// MostPages calls.
func Repeat(ctx context.Context, calls int) error {
	if calls >= MostPages {
		return fmt.Errorf("%w after %d calls", errEndless, calls)
	}
	return ctx.Err()
}
