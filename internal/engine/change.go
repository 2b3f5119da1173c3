package engine

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"
)

// Change runs a call that changes the limiters that depend on these keys. It revokes their prefetches before and
// after, and waits for those in transit: together at most longTransfer. When the call has ended, even with an error,
// their queues ask Redis again and no denial from before is used.
func Change[T any](ctx context.Context, g *Engine, keys []string,
	call func(context.Context) (T, error)) (T, error) {
	return Refund(ctx, g, keys, func(ctx context.Context) (T, error) {
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

// Refund is Change for a call that refunds permits. It leaves prefetches as they are.
func Refund[T any](ctx context.Context, g *Engine, keys []string,
	call func(context.Context) (T, error)) (T, error) {
	return Detach(ctx, func(ctx context.Context) (T, error) {
		defer g.invalidate(keys)
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
	c := &RedisCallInfo{Limiter: l, Requests: 1, Permits: permits}
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

// changes counts the changes of limiters by this Client, by a hash of their keys. Few keys share a counter: then a
// change of one has Redis asked once more for the other. A nil *changes counts nothing.
type changes [1 << 14]keyChanges

// keyChanges counts the changes of the keys with one hash.
type keyChanges struct {
	ended    atomic.Uint32
	inFlight atomic.Int32
}

func (c *changes) changesOf(key string) *keyChanges {
	return &c[maphash.String(seed, key)%uint64(len(c))]
}

// versionOf returns a number that grows with each change of these keys.
func (c *changes) versionOf(keys []string) (version uint64) {
	if c != nil {
		for _, key := range keys {
			version += uint64(c.changesOf(key).ended.Load())
		}
	}
	return version
}

// raise counts a change of these keys, which ends what was known of the limiters that depend on them.
func (c *changes) raise(keys []string) {
	if c != nil {
		for _, key := range keys {
			c.changesOf(key).ended.Add(1)
		}
	}
}

// addInFlight adds to the number of changes of these keys that are in flight.
func (c *changes) addInFlight(keys []string, more int32) {
	for _, key := range keys {
		c.changesOf(key).inFlight.Add(more)
	}
}

// areInFlight reports whether a change of one of these keys is in flight.
func (c *changes) areInFlight(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return c.changesOf(key).inFlight.Load() > 0 })
}
