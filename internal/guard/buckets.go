package guard

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// maxBuckets is the largest number of buckets at once. Requests that need further ones are denied:
// to drop a bucket that is not full would grant its share again.
const maxBuckets = 1 << 17

// buckets holds the shares of limits that this process grants by itself. A bucket is kept until it
// is full, even after an outage, so that the next outage counts the permits taken.
type buckets struct {
	clock
	clean atomic.Int64 // the time of the next sweep; 0 without buckets

	mu  sync.Mutex
	all map[bucketKey]bucket
}

type bucket struct {
	full     int64 // the time at which it is full
	began    int64 // when it was last found full
	refunded int64 // since then
	taken    int64 // when permits were last taken
}

// bucketKey identifies the share of a limiter's policy.
type bucketKey struct {
	limiter string // the name
	policy  string // the key of the policy, which lacks the permits: they change only the shape
}

// take takes permits of a share, free or not.
func (b *bucket) take(s shape, now, permits int64) {
	if b.full <= now {
		b.began, b.refunded = now, 0
	}
	b.full, b.taken = s.take(b.full, now, permits), now
}

// refund returns permits of a request that left the bucket as after. It returns none that the bucket
// has got for them since, which are free for all. As limit.TokenBucket, it returns the larger one of
// these, since both are at most what is still missing because of the request:
//   - the permits, less all time since
//   - what was missing after the request, less all time and all refunds since
func (b *bucket) refund(s shape, after bucket, now, permits int64) {
	if b.began > after.taken {
		return
	}
	due := max(s.time(permits)-(now-after.taken), after.full-now-(b.refunded-after.refunded))
	if due = min(due, s.time(permits)); due > 0 {
		b.full, b.refunded = b.full-due, b.refunded+due
	}
}

// cleanEvery is the time between sweeps of full buckets and of pauses that have ended.
const cleanEvery = time.Second

// take decides a request by shares of its limiters' policies. It returns false in these cases:
//
//   - The policies or the name of a limiter are unknown.
//   - The request costs more than a share ever holds.
//   - There is no room for another bucket.
func (b *buckets) take(q Request, share float64) (Answer, bool) {
	keys, shapes := sharesOf(q, share)
	if keys == nil {
		return Answer{}, false
	}
	for _, s := range shapes {
		if s.holds < q.Permits && !s.owes {
			return Answer{}, false
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.fitLocked(keys, now) {
		return Answer{}, false
	}
	each := make([]rratelimiter.Decision, len(shapes))
	for i, s := range shapes {
		each[i] = s.decide(b.all[keys[i]].full, now, q.Permits)
	}
	var a Answer
	a.Result, a.Local, a.Decision = limit.Rejected, true, combine(each)
	if a.Decision.Allowed {
		a.Result = limit.Acquired
		b.changeLocked(keys, now, func(i int, one *bucket) {
			one.take(shapes[i], now, q.Permits)
			each[i] = shapes[i].decide(one.full, now, 0)
			a.shares = append(a.shares, *one)
		})
		a.Decision = combine(each)
	}
	if len(each) > 1 {
		a.Each = each
	}
	return a, true
}

// settle takes more permits than a request has taken, free or not, or refunds some if more is
// negative. after is the buckets as the request left them.
func (b *buckets) settle(q Request, share float64, after []bucket, more int64) {
	keys, shapes := sharesOf(q, share)
	if keys == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.fitLocked(keys, now) {
		return
	}
	b.changeLocked(keys, now, func(i int, one *bucket) {
		if more > 0 {
			one.take(shapes[i], now, more)
		} else {
			one.refund(shapes[i], after[i], now, -more)
		}
	})
}

func (b *buckets) changeLocked(keys []bucketKey, now int64, change func(i int, one *bucket)) {
	if b.all == nil {
		b.all = make(map[bucketKey]bucket)
		b.clean.Store(now + int64(cleanEvery))
	}
	for i, key := range keys {
		one := b.all[key]
		change(i, &one)
		b.all[key] = one
	}
}

// fitLocked reports whether there is room for the buckets that are missing. The lock is held.
func (b *buckets) fitLocked(keys []bucketKey, now int64) bool {
	if len(b.all)+len(keys) <= maxBuckets {
		return true
	}
	missing := func() (n int) {
		for _, key := range keys {
			if _, exists := b.all[key]; !exists {
				n++
			}
		}
		return n
	}
	if len(b.all)+missing() > maxBuckets {
		b.sweepLocked(now)
	}
	return len(b.all)+missing() <= maxBuckets
}

// tidy sweeps if a sweep is due. Without buckets it only reads an atomic.
func (b *buckets) tidy() {
	if due := b.clean.Load(); due == 0 || b.now() < due {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepLocked(b.now())
}

// sweepLocked drops full buckets, at most once in cleanEvery. The lock is held.
func (b *buckets) sweepLocked(now int64) {
	if now < b.clean.Load() {
		return
	}
	b.clean.Store(now + int64(cleanEvery))
	maps.DeleteFunc(b.all, func(_ bucketKey, one bucket) bool { return one.full <= now })
	if len(b.all) == 0 {
		b.all = nil
		b.clean.Store(0)
	}
}
