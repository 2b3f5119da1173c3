package guard

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
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

// bucket is the state of one share.
type bucket struct {
	full int64 // the time at which it is full
}

// bucketKey identifies the share of a limiter's policy.
type bucketKey struct {
	limiter string // the name
	policy  string // the key of the policy, which lacks the permits: they change only the shape
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
	a := Answer{Result: Rejected, Local: true, Decision: combine(each)}
	if a.Decision.Allowed {
		a.Result = Acquired
		b.takeLocked(keys, shapes, now, q.Permits)
		for i, s := range shapes {
			each[i] = s.decide(b.all[keys[i]].full, now, 0)
		}
		a.Decision = combine(each)
	}
	if len(each) > 1 {
		a.Each = each
	}
	return a, true
}

// settle takes more permits, free or not, or returns some if more is negative.
func (b *buckets) settle(q Request, share float64, more int64) {
	keys, shapes := sharesOf(q, share)
	if keys == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); b.fitLocked(keys, now) {
		b.takeLocked(keys, shapes, now, more)
	}
}

// takeLocked takes permits from each bucket. The lock is held.
func (b *buckets) takeLocked(keys []bucketKey, shapes []shape, now, permits int64) {
	if b.all == nil {
		b.all = make(map[bucketKey]bucket)
		b.clean.Store(now + int64(cleanEvery))
	}
	for i, s := range shapes {
		one := b.all[keys[i]]
		one.full = s.take(one.full, now, permits)
		b.all[keys[i]] = one
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
