package rratelimiter

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// WithDenialCache answers denials from memory: once Redis has said that so many permits cannot be free before some
// moment, TryAcquire and Take for at least as many are denied without asking it until then. Nothing is ever granted
// from memory.
//
// What was remembered is forgotten as soon as this Client gives permits back or changes the limiter, and, where the
// rueidis client caches (the default, with Redis 6 or later), within about a millisecond of being told that somebody
// else did. With a rueidis client that was made with DisableCache, a limiter that others reset, or release permits
// of, stays denied here for as long as Redis had said.
//
// It remembers a name only while it is exhausted.
func WithDenialCache() Option {
	return func(c *Client) { c.denials = new(denials) }
}

// denials is what a Client remembers of exhausted limiters.
type denials struct {
	byKey sync.Map // configuration key -> *denial
}

// denial is Redis's word that so many permits are not free before a moment.
type denial struct {
	permits  int64
	until    time.Time
	reset    time.Time // when every permit is free again
	decision Decision  // as it was then

	watched bool         // Redis tells of changes, through the cache of rueidis
	checked atomic.Int64 // when the cache was last asked, as time since asked
	asked   time.Time
}

// checkEvery is how often the cache of rueidis is asked whether Redis told of a change. It is a look into memory, but
// one that takes longer than all the rest of a denial.
const checkEvery = time.Millisecond

// deny answers a request from memory, where that is possible.
func (l *Limiter) deny(ctx context.Context, permits int64) (Decision, bool) {
	all := l.client.denials
	if all == nil {
		return Decision{}, false
	}
	found, ok := all.byKey.Load(l.keys[configKey])
	if !ok {
		return Decision{}, false
	}
	d := found.(*denial)
	now := time.Now()
	if permits < d.permits || permits > d.decision.Limit || !now.Before(d.until) {
		return Decision{}, false
	}
	since, checked := int64(now.Sub(d.asked)), d.checked.Load()
	if d.watched && since-checked > int64(checkEvery) && d.checked.CompareAndSwap(checked, since) && !l.watch(ctx, d.until).untouched() {
		all.forget(l.keys[configKey])
		return Decision{}, false
	}
	decision := d.decision
	decision.RetryAfter, decision.ResetAfter = d.until.Sub(now), d.reset.Sub(now)
	return decision, true
}

// remember keeps the denial of the fewest permits in a flight.
func (l *Limiter) remember(ctx context.Context, f *flight) {
	all := l.client.denials
	if all == nil || f.denied == 0 {
		return
	}
	d := &denial{permits: f.denied, asked: f.asked, until: f.asked.Add(freeAfter(f.returns, f.denied-f.free)), reset: f.asked.Add(f.reset)}
	d.decision = Decision{Limit: f.rate, Remaining: max(0, f.free)}
	left := time.Until(d.until)
	if left <= checkEvery {
		return
	}
	// The first look asks Redis to tell of changes and sees whether there were any since the denial, the second
	// whether the rueidis client keeps a cache at all.
	if !l.watch(ctx, d.until).shows(f) {
		return
	}
	d.watched = l.watch(ctx, d.until).untouched()
	all.byKey.Store(l.keys[configKey], d)
	time.AfterFunc(left, func() { all.byKey.CompareAndDelete(l.keys[configKey], d) })
}

// watched is what the cache of rueidis holds of a limiter: the configuration, the value, and this client's value.
type watched []rueidis.RedisResult

// watch looks into the cache of rueidis, which asks Redis for what it does not hold, and to tell when it changes.
func (l *Limiter) watch(ctx context.Context, until time.Time) watched {
	ttl := time.Until(until) + time.Second
	b := l.client.redis.B()
	looks := []rueidis.CacheableTTL{
		rueidis.CT(b.Hmget().Key(l.keys[configKey]).Field("rate", "type").Cache(), ttl),
		rueidis.CT(b.Get().Key(l.keys[valueKey]).Cache(), ttl),
		rueidis.CT(b.Get().Key(l.keys[clientValueKey]).Cache(), ttl),
	}
	results, err := detached(ctx, func(ctx context.Context) (watched, error) {
		return l.client.redis.DoMultiCache(ctx, looks...), nil
	})
	if err != nil {
		return nil
	}
	return results
}

// untouched says that all was in the cache still, so that Redis has told of no change.
func (w watched) untouched() bool {
	for _, result := range w {
		if !result.IsCacheHit() {
			return false
		}
	}
	return len(w) > 0
}

// shows says whether the limiter is as a flight found it.
func (w watched) shows(f *flight) bool {
	if len(w) == 0 {
		return false
	}
	config, err := w[0].AsStrSlice()
	if err != nil || len(config) != 2 || config[0] != strconv.FormatInt(f.rate, 10) {
		return false
	}
	value := w[1]
	if config[1] == "1" {
		value = w[2]
	}
	text, err := value.ToString()
	return err == nil && text == strconv.FormatInt(f.free, 10)
}

// forget drops what is remembered of a limiter.
func (d *denials) forget(key string) {
	if d != nil {
		d.byKey.Delete(key)
	}
}
