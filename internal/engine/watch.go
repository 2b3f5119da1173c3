package engine

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// watchFor bounds the calls that begin a watch, for which nobody waits.
const watchFor = 500 * time.Millisecond

// watch has Redis tell of changes of an exhausted limiter, and says whether the limiter still is what the denial says: only
// what was read after Redis had begun to tell of changes, and has not changed since, is to be relied on. Where rueidis
// keeps no cache that cannot be had, and the denial stands as it is.
func (l *Limiter) watch(d *denial) bool {
	all := l.Engine.denials
	// Not a deadline: rueidis would answer that by closing a connection that others use.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(watchFor, cancel).Stop()
	for range 3 {
		if !d.outlook.Shows(l.look(ctx, d)) {
			return false
		}
		again := l.look(ctx, d)
		hits := 0
		for _, r := range again {
			if r.IsCacheHit() {
				hits++
			}
		}
		if hits > 0 {
			all.caching.CompareAndSwap(0, cachingYes)
		}
		if hits == len(again) {
			d.watched = true
			return d.outlook.Shows(again)
		}
	}
	// Somebody touches the limiter all the time, or there is no cache.
	return !l.caches(ctx, d) && ctx.Err() == nil && all.caching.CompareAndSwap(0, cachingNo)
}

// look reads, through the cache of rueidis, what a denial depends on.
func (l *Limiter) look(ctx context.Context, d *denial) []rueidis.RedisResult {
	return l.Engine.redis.DoMultiCache(ctx, l.Protocol.Looks(d.until+time.Second)...)
}

// caches says whether rueidis keeps a cache. What is asked for twice in one call it then reads once, whatever changes meanwhile.
func (l *Limiter) caches(ctx context.Context, d *denial) bool {
	ttl := d.until + time.Second
	return slices.ContainsFunc(l.Engine.redis.DoMultiCache(ctx, append(l.Protocol.Looks(ttl), l.Protocol.Looks(ttl)...)...),
		func(r rueidis.RedisResult) bool { return r.IsCacheHit() })
}

// ended is a context that has ended: rueidis then gives what it has in its cache, and asks nobody for what it has not.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// peek says whether all that a denial is about is in the cache still, as it was seen: Redis has told of no change. Somebody
// else may have read it into the cache again after one.
func (l *Limiter) peek(d *denial) bool {
	found := l.look(ended, d)
	for _, r := range found {
		if !r.IsCacheHit() {
			return false
		}
	}
	return d.outlook.Shows(found)
}
