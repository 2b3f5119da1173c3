package rratelimiter

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// watchFor bounds the calls that begin a watch, for which nobody waits.
const watchFor = 500 * time.Millisecond

// watch has Redis tell of changes of an exhausted limiter, and says whether the limiter still is what the denial says: only
// what was read after Redis had begun to tell of changes, and has not changed since, is to be relied on. Where rueidis
// keeps no cache that cannot be had, and the denial stands as it is.
func (l *Limiter) watch(d *denial, p *picture) bool {
	all := l.client.denials
	// Not a deadline: rueidis would answer that by closing a connection that others use.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(watchFor, cancel).Stop()
	for range 3 {
		if !p.shownBy(l.client.redis.DoMultiCache(ctx, l.looks(d.until)...)) {
			return false
		}
		again := l.client.redis.DoMultiCache(ctx, l.looks(d.until)...)
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
			d.seen = p
			return p.shownBy(again)
		}
	}
	// Somebody changes the limiter all the time, or there is no cache.
	return ctx.Err() == nil && all.caching.CompareAndSwap(0, cachingNo)
}

// looks makes the reads of a limiter that go through the cache of rueidis. Redis tells of changes of what was read.
func (l *Limiter) looks(until time.Duration) []rueidis.CacheableTTL {
	b, ttl := l.client.redis.B(), until+time.Second
	return []rueidis.CacheableTTL{
		rueidis.CT(b.Hmget().Key(l.keys[configKey]).Field("rate", "interval", "type").Cache(), ttl),
		rueidis.CT(b.Get().Key(l.keys[valueKey]).Cache(), ttl),
		rueidis.CT(b.Get().Key(l.keys[clientValueKey]).Cache(), ttl),
		rueidis.CT(b.Zrange().Key(l.keys[permitsKey]).Min("0").Max("255").Withscores().Cache(), ttl),
		rueidis.CT(b.Zrange().Key(l.keys[clientPermitsKey]).Min("0").Max("255").Withscores().Cache(), ttl),
	}
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
	found := l.client.redis.DoMultiCache(ended, l.looks(d.until)...)
	for _, r := range found {
		if !r.IsCacheHit() {
			return false
		}
	}
	return d.seen.shownBy(found)
}

// picture is a limiter as a batch found it.
type picture struct {
	rate, interval, free int64
	now                  int64 // Unix milliseconds of the clock that the script went by
	returns              []returning
}

// shownBy says whether what was read is the limiter of a picture.
func (p *picture) shownBy(found []rueidis.RedisResult) bool {
	config, err := found[0].AsStrSlice()
	if err != nil || len(config) != 3 || config[0] != strconv.FormatInt(p.rate, 10) || config[1] != strconv.FormatInt(p.interval, 10) {
		return false
	}
	pair := 0
	if config[2] == strconv.Itoa(int(PerClient)) {
		pair = 1
	}
	value, err := found[1+pair].ToString()
	if err != nil || value != strconv.FormatInt(p.free, 10) {
		return false
	}
	grants, err := found[3+pair].AsZScores()
	if err != nil {
		return false
	}
	// The grants, as the script tells when they return. The last return of a page may be cut.
	var returns []returning
	for _, g := range grants {
		if len(g.Member) < 4 {
			return false
		}
		n := len(g.Member) - 4
		permits := int64(g.Member[n]) | int64(g.Member[n+1])<<8 | int64(g.Member[n+2])<<16 | int64(g.Member[n+3])<<24
		after := millis(max(0, int64(g.Score)+p.interval-p.now))
		if last := len(returns) - 1; last >= 0 && returns[last].after == after {
			returns[last].permits += permits
		} else if len(returns) == len(p.returns) {
			break
		} else {
			returns = append(returns, returning{after, permits})
		}
	}
	for i, r := range p.returns {
		if i >= len(returns) || returns[i].after != r.after || returns[i].permits < r.permits {
			return false
		}
	}
	return true
}
