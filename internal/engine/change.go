package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Change runs a call that changes the limiters that depend on these keys. It revokes their prefetches before and
// after, and waits for those in transit: together at most longTransfer, and as long for releases. When the
// call has ended, even with an error, their queues ask Redis again and no denial from before is used.
func Change[T any](ctx context.Context, g *Engine, keys []string,
	call func(context.Context) (T, error)) (T, error) {
	return Refund(ctx, g, keys, func(ctx context.Context) (T, error) {
		if g.prefetch == 0 {
			return call(ctx)
		}
		g.changes.count(keys, 1)
		defer g.changes.count(keys, -1)
		late := make(chan struct{})
		defer time.AfterFunc(longTransfer, func() { close(late) }).Stop()
		revoke := func() {
			var releases []release
			for _, key := range keys {
				releases = append(releases, g.revoke(g.dependents.of(key))...)
			}
			runAll(ctx, releases)
			g.awaitTransfers(keys, late)
		}
		revoke()
		defer revoke() // prefetches that arrived late
		return call(ctx)
	})
}

// Refund is Change for a call that refunds permits. It leaves prefetches as they are.
func Refund[T any](ctx context.Context, g *Engine, keys []string,
	call func(context.Context) (T, error)) (T, error) {
	return Detach(ctx, func(ctx context.Context) (T, error) {
		defer func() {
			for _, key := range keys {
				g.invalidate(key)
			}
		}()
		return call(ctx)
	})
}

// Charge is Change for a call that takes permits, which it reports to the Observer: on the
// goroutine of its caller, if that still waits.
func Charge[T any](ctx context.Context, l *Limiter, permits int64, call func(context.Context) (T, error)) (T, error) {
	o := l.Engine.observer
	if o == nil || o.RedisCall == nil {
		return Change(ctx, l.Engine, l.DependsOn, call)
	}
	c := &Call{Limiter: l, Requests: 1, Permits: permits}
	var ended atomic.Int32 // the call, and the caller's wait for it: the second reports
	value, err := Change(ctx, l.Engine, l.DependsOn, func(ctx context.Context) (T, error) {
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

// invalidate forgets the denials of limiters that depend on a key, and has their queues ask Redis at once.
func (g *Engine) invalidate(key string) {
	g.denials.forget(key)
	for _, id := range g.dependents.of(key) {
		g.refresh(id)
	}
}

// refresh has the queue of a limiter ask Redis at once.
func (g *Engine) refresh(id string) {
	e := g.registry.lockExisting(id)
	if e == nil {
		return
	}
	if e.queue != nil {
		e.queue.stale = true
		e.queue.wake()
	}
	g.registry.unlockEntry(e)
}

// revoke revokes the prefetches of limiters, and returns the releases to run.
func (g *Engine) revoke(ids []string) (releases []release) {
	for _, id := range ids {
		if e := g.registry.lockExisting(id); e != nil {
			releases = e.prefetches.revoke(releases)
			g.registry.unlockEntry(e)
		}
	}
	return releases
}

// changesInFlight counts the changes in flight by key. Meanwhile limiters that depend on the key prefetch
// nothing.
type changesInFlight struct {
	mu    sync.Mutex
	calls map[string]int
}

// count adds to the number of changes in flight.
func (c *changesInFlight) count(keys []string, more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[string]int)
	}
	for _, key := range keys {
		if c.calls[key] += more; c.calls[key] == 0 {
			delete(c.calls, key)
		}
	}
}

// any reports whether a change of one of these keys is in flight.
func (c *changesInFlight) any(keys []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(keys, func(key string) bool { return c.calls[key] > 0 })
}
