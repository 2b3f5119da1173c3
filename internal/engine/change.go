package engine

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// ChangeLimiters runs a call that changes the limiters that depend on these keys. It revokes their prefetches before and
// after, and waits for those in transit: together at most longTransfer. When the call has ended, even with an error,
// their queues ask Redis again and no denial from before is used.
func ChangeLimiters[T any](ctx context.Context, g *Engine, keys []string,
	call func(context.Context) (T, error)) (T, error) {
	return ChangeKeepingPrefetches(ctx, g, keys, func(ctx context.Context) (T, error) {
		if g.prefetch == 0 {
			return call(ctx)
		}
		g.changes.addInFlight(keys, 1)
		defer g.changes.addInFlight(keys, -1)
		late, cancel := context.WithTimeout(ctx, longTransfer)
		defer cancel()
		revokeAll := func() {
			for _, key := range keys {
				revoke(g.registry.index.entriesOf(key))
			}
			await(late, g.transfers.of(keys))
		}
		revokeAll()
		defer revokeAll() // prefetches that arrived late
		return call(ctx)
	})
}

// ChangeKeepingPrefetches is ChangeLimiters for a call that refunds permits. It leaves prefetches as they are.
func ChangeKeepingPrefetches[T any](ctx context.Context, g *Engine, keys []string,
	call func(context.Context) (T, error)) (T, error) {
	return Detach(ctx, func(ctx context.Context) (T, error) {
		defer g.invalidate(keys)
		return call(ctx)
	})
}

// Charge is ChangeLimiters for a call that takes permits, which it reports to the Observer: on the
// goroutine of its caller, if that still waits.
func Charge[T any](ctx context.Context, l *Limiter, permits int64, call func(context.Context) (T, error)) (T, error) {
	o := l.Engine.observer
	if o == nil || o.RedisCall == nil {
		return ChangeLimiters(ctx, l.Engine, l.DependsOn, call)
	}
	c := &RedisCallInfo{Limiter: l, Requests: 1, Permits: permits}
	var ended atomic.Int32 // the call, and the caller's wait for it: the second reports
	value, err := ChangeLimiters(ctx, l.Engine, l.DependsOn, func(ctx context.Context) (T, error) {
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

// invalidate ends what was known of the limiters that depend on these keys, and has their queues ask Redis at once.
func (g *Engine) invalidate(keys []string) {
	g.changes.raise(keys)
	for _, key := range keys {
		for _, e := range g.registry.index.entriesOf(key) {
			e.mu.Lock()
			if e.queue != nil {
				e.queue.refresh()
			}
			e.mu.Unlock()
		}
	}
}

// revoke refunds the prefetches of entries.
func revoke(entries []*entry) (all []*transfer) {
	for _, e := range entries {
		if e.mu.Lock(); e.prefetches != nil {
			all = append(all, e.prefetches.revoke()...)
		}
		e.mu.Unlock()
	}
	return all
}

// Flush refunds all prefetches, including those of calls in flight, and waits for refunds and for returns of what
// requests held that have begun before. It returns the first error.
func (g *Engine) Flush(ctx context.Context) error {
	_, err := Detach(ctx, func(ctx context.Context) (struct{}, error) {
		all := append(revoke(g.registry.all()), g.transfers.all()...)
		failed := g.Keeper.Flush(ctx)
		for _, t := range all {
			<-t.done
			failed = cmp.Or(failed, t.err)
		}
		return struct{}{}, failed
	})
	return err
}
