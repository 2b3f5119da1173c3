package guard

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// maxNames is the largest number of names that have buckets at once. Further names are denied: to
// drop a bucket that is not full would grant its share again.
const maxNames = 1 << 16

// buckets holds the shares of limits that this process grants by itself. A name is kept until its
// buckets are full, even after an outage, so that the next outage counts the permits taken.
type buckets struct {
	clock
	clean atomic.Int64 // the time of the next sweep; 0 without buckets

	mu     sync.Mutex
	byName map[string][]bucket // for each policy in order, then of former policies of the limiter
}

// bucket is the state of one share.
type bucket struct {
	key      string // of its policy, without the number of permits, which changes only the shape
	full     int64  // the time at which it is full
	began    int64  // when it was last found full
	refunded int64  // since then
	taken    int64  // when permits were last taken
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

// take decides a request by shares of its limiter's policies. It returns false in these cases:
//
//   - The policies or the limiter's name are unknown.
//   - The request costs more than a share ever holds.
//   - There is no room for another name.
func (b *buckets) take(q Request, share float64) (Answer, bool) {
	name := NameOf(q.Limiter)
	shapes := shapesOf(q.Policies, share)
	if name == "" || len(shapes) == 0 {
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
	found := b.findLocked(name, q.Policies, now)
	if found == nil {
		return Answer{}, false
	}
	each := make([]rratelimiter.Decision, len(shapes))
	for i, s := range shapes {
		each[i] = s.decide(found[i].full, now, q.Permits)
	}
	a := Answer{Result: Rejected, Local: true, Decision: combine(each)}
	if a.Decision.Allowed {
		a.Result = Acquired
		for i, s := range shapes {
			found[i].take(s, now, q.Permits)
			each[i] = s.decide(found[i].full, now, 0)
		}
		a.shares = slices.Clone(found[:len(shapes)])
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
	shapes := shapesOf(q.Policies, share)
	if len(shapes) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if found := b.findLocked(NameOf(q.Limiter), q.Policies, now); found != nil {
		for i, s := range shapes {
			if more > 0 {
				found[i].take(s, now, more)
			} else {
				found[i].refund(s, after[i], now, -more)
			}
		}
	}
}

func shapesOf(policies []limit.Policy, share float64) []shape {
	shapes := make([]shape, 0, len(policies))
	for _, p := range policies {
		s, ok := shapeOf(p, share)
		if !ok {
			return nil
		}
		shapes = append(shapes, s)
	}
	return shapes
}

// findLocked returns the buckets of a name, one for each policy. New buckets are full. It returns
// nil if there is no room for the name. The lock is held.
func (b *buckets) findLocked(name string, policies []limit.Policy, now int64) []bucket {
	found, exists := b.byName[name]
	if !exists && len(b.byName) >= maxNames {
		if b.sweepLocked(now); len(b.byName) >= maxNames {
			return nil
		}
	}
	changed := !exists
	for i, p := range policies {
		d, _ := policy.Of(p)
		at := slices.IndexFunc(found[min(i, len(found)):], func(other bucket) bool { return other.key == d.Key })
		if at < 0 {
			found, changed = slices.Insert(found, i, bucket{key: d.Key}), true
		} else if at > 0 {
			found[i], found[i+at] = found[i+at], found[i]
		}
	}
	if changed {
		if b.byName == nil {
			b.byName = make(map[string][]bucket)
			b.clean.Store(now + int64(cleanEvery))
		}
		before := slices.DeleteFunc(found[len(policies):], func(other bucket) bool { return other.full <= now })
		found = found[:len(policies)+len(before)]
		b.byName[name] = found
	}
	return found
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

// sweepLocked drops the names whose buckets are full, at most once in cleanEvery. The lock is held.
func (b *buckets) sweepLocked(now int64) {
	if now < b.clean.Load() {
		return
	}
	b.clean.Store(now + int64(cleanEvery))
	for name, all := range b.byName {
		if !slices.ContainsFunc(all, func(one bucket) bool { return one.full > now }) {
			delete(b.byName, name)
		}
	}
	if len(b.byName) == 0 {
		b.byName = nil
		b.clean.Store(0)
	}
}
