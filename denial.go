package rratelimiter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// WithDenialCache answers denials from memory: once Redis has said that so many permits cannot be free before some
// moment, TryAcquire and Take for at least as many are denied without asking it until then. Nothing is ever granted
// from memory.
//
// What was remembered is forgotten as soon as this Client changes the limiter in any way, and, where the rueidis client
// caches (the default, with Redis 6 or later), within about a millisecond of being told that somebody else did. With a
// rueidis client that was made with DisableCache, a limiter that others reset, delete, or release permits of, stays
// denied here for as long as Redis had said.
//
// It remembers a name only while it is exhausted.
func WithDenialCache() Option {
	return func(c *Client) { c.denials = &denials{seed: maphash.MakeSeed()} }
}

// denials is what a Client remembers of exhausted limiters.
type denials struct {
	byKey sync.Map // configuration key -> *denial
	// versions counts the changes of limiters, by a hash of the key. What was known before one is not remembered after it.
	seed     maphash.Seed
	versions [256]atomic.Uint64
	caching  atomic.Int32 // whether the rueidis client caches: 0 is not known, see cachingYes and cachingNo
}

const (
	cachingYes = 1
	cachingNo  = 2
)

// denial is Redis's word on when permits of an exhausted limiter come back.
type denial struct {
	limit   int64
	permits int64         // the fewest that were denied
	free    int64         // below 0 where more are taken than the rate
	returns []returning   // after the moment asked
	until   time.Duration // after the moment asked: the first return that may end it
	reset   time.Duration // after the moment asked: when every permit is free again
	asked   time.Time
	end     *time.Timer // forgets it

	seen    *picture     // of which Redis tells changes; nil where it does not
	checked atomic.Int64 // when the cache was last looked at, as time since asked
}

// checkEvery is how often the cache of rueidis is looked at, whether Redis told of a change. It is a look into memory, but
// one that takes longer than all the rest of a denial.
const checkEvery = time.Millisecond

// deny answers a request from memory, where that is possible.
func (l *Limiter) deny(permits int64) (Decision, bool) {
	all := l.client.denials
	if all == nil {
		return Decision{}, false
	}
	found, ok := all.byKey.Load(l.keys[configKey])
	if !ok {
		return Decision{}, false
	}
	d := found.(*denial)
	since := time.Since(d.asked)
	if permits < d.permits || permits > d.limit || since >= d.until {
		return Decision{}, false
	}
	var back int64
	for _, r := range d.returns {
		back += r.permits
	}
	if back < permits-d.free {
		return Decision{}, false // it is not known when so many come back
	}
	if checked := d.checked.Load(); d.seen != nil && int64(since)-checked > int64(checkEvery) &&
		d.checked.CompareAndSwap(checked, int64(since)) && !l.peek(d) {
		all.drop(l.keys[configKey], d)
		return Decision{}, false
	}
	return Decision{
		Limit:      d.limit,
		Remaining:  max(0, d.free),
		RetryAfter: freeAfter(d.returns, permits-d.free) - since,
		ResetAfter: d.reset - since,
	}, true
}

// remember keeps what a batch learned of an exhausted limiter, known being the version before it was sent. Where Redis is
// to tell of changes that takes calls of their own, for which nobody waits.
func (l *Limiter) remember(b *batch, known uint64) {
	all := l.client.denials
	d := &denial{
		limit: b.rate, permits: b.denied, free: b.free, returns: append([]returning(nil), b.returns...),
		until: freeAfter(b.returns, b.denied-b.free), reset: b.reset, asked: b.asked,
	}
	if time.Until(d.asked.Add(d.until)) <= checkEvery {
		return
	}
	if all.caching.Load() == cachingNo {
		all.keep(l.keys[configKey], d, known)
		return
	}
	seen := &picture{b.rate, b.interval.Milliseconds(), b.free, b.now, d.returns}
	go func() {
		if l.watch(d, seen) {
			all.keep(l.keys[configKey], d, known)
		}
	}()
}

// keep remembers a denial, unless this client has changed the limiter since it was of that version.
func (d *denials) keep(key string, found *denial, known uint64) {
	left := time.Until(found.asked.Add(found.until))
	if left <= 0 {
		return
	}
	found.end = time.AfterFunc(left, func() { d.byKey.CompareAndDelete(key, found) })
	if before, ok := d.byKey.Swap(key, found); ok {
		before.(*denial).end.Stop()
	}
	// Whoever changes the limiter counts first and forgets then.
	if d.version(key) != known {
		d.drop(key, found)
	}
}

func (d *denials) drop(key string, found *denial) {
	d.byKey.CompareAndDelete(key, found)
	found.end.Stop()
}

// version counts the changes that this client has made to a limiter, and to those that share its counter.
func (d *denials) version(key string) uint64 {
	if d == nil {
		return 0
	}
	return d.counter(key).Load()
}

func (d *denials) counter(key string) *atomic.Uint64 {
	return &d.versions[maphash.String(d.seed, key)%uint64(len(d.versions))]
}

// forget drops what is remembered of a limiter, and what is about to be.
func (d *denials) forget(key string) {
	if d == nil {
		return
	}
	d.counter(key).Add(1)
	if before, ok := d.byKey.LoadAndDelete(key); ok {
		before.(*denial).end.Stop()
	}
}
