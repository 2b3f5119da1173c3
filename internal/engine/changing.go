package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// Changing runs a call that changes the limiters with these subjects. It revokes their leases
// before and after. When the call has ended, even with an error, their queues ask Redis again and
// no denial from before is used.
func Changing[T any](ctx context.Context, g *Engine, subjects []string,
	call func(context.Context) (T, error)) (T, error) {
	return Returning(ctx, g, subjects, func(ctx context.Context) (T, error) {
		revoke := func() {
			for _, subject := range subjects {
				runAll(ctx, g.revoke(subject))
			}
		}
		revoke()
		defer revoke() // leases that arrived meanwhile
		return call(ctx)
	})
}

// Returning is Changing for a call that returns permits. It leaves leases as they are.
func Returning[T any](ctx context.Context, g *Engine, subjects []string,
	call func(context.Context) (T, error)) (T, error) {
	return Detached(ctx, func(ctx context.Context) (T, error) {
		defer func() {
			for _, subject := range subjects {
				g.changed(subject)
			}
		}()
		return call(ctx)
	})
}

// Taking is Changing for a call that takes permits, which it reports to the Observer: on the
// goroutine of its caller, if that still waits.
func Taking[T any](ctx context.Context, l *Limiter, permits int64, call func(context.Context) (T, error)) (T, error) {
	o := l.Engine.observer
	if o == nil || o.Called == nil {
		return Changing(ctx, l.Engine, l.Subjects, call)
	}
	c := &Call{Limiter: l, Requests: 1, Permits: permits}
	var ended atomic.Int32 // the call, and the caller's wait for it: the second reports
	value, err := Changing(ctx, l.Engine, l.Subjects, func(ctx context.Context) (T, error) {
		c.began = time.Now()
		value, err := call(ctx)
		if c.finish(0, err); ended.Add(1) == 2 {
			c.reportAlone()
		}
		return value, err
	})
	if ended.Add(1) == 2 {
		c.report(ctx, l)
	}
	return value, err
}

// changed forgets the denials of limiters with a subject, and has their queues ask Redis at once.
func (g *Engine) changed(subject string) {
	g.denials.forget(subject)
	for _, id := range g.waiting.of(subject) {
		g.wake(id)
	}
}

// wake has the queue of a limiter ask Redis at once.
func (g *Engine) wake(id string) {
	e := g.registry.find(id)
	if e == nil {
		return
	}
	if e.queue != nil {
		e.queue.ask = true
		e.queue.wake()
	}
	g.registry.unlock(e)
}

// revoke revokes the leases of all limiters with a subject, and returns the releases to run.
func (g *Engine) revoke(subject string) (releases []release) {
	if g.lease == 0 {
		return nil
	}
	for _, id := range g.holders.of(subject) {
		if e := g.registry.find(id); e != nil {
			releases = e.leases.revoke(releases)
			g.registry.unlock(e)
		}
	}
	return releases
}
