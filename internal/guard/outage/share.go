package outage

// The local share of a limit, which this process grants while Redis is down: a token bucket for each policy
// of a limiter.

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// maxBuckets is the largest number of buckets at once. Requests that need further ones are decided by mode Closed:
// to drop a bucket that is not full would grant its share again.
const maxBuckets = 1 << 17

// buckets holds the shares of limits that this process grants by itself. A bucket is kept until it
// is full, even after an outage, so that the next outage counts the permits taken.
type buckets struct {
	clock
	nextSweep atomic.Int64 // the time of the next sweep; 0 without buckets

	mu  sync.Mutex
	all map[bucketKey]bucket
}

type bucket struct {
	full int64        // the time at which it is full
	held []*localHold // of a policy whose permits are held. It is full at the end of all.
}

// localHold is permits that a request holds until a time, none once it has returned them.
type localHold struct{ end, permits int64 }

func (g *localHold) isOver(now int64) bool { return g.permits == 0 || g.end <= now }

// bucketKey identifies the share of a limiter's policy.
type bucketKey struct {
	limiter string // the name
	policy  string // the key of the policy, which lacks the permits: they change only the shape
}

// take takes permits of a share, free or not. It returns the grant of permits that are held.
func (b *bucket) take(s shape, now, permits int64) *localHold {
	if s.lease == 0 {
		b.full = s.fullAfter(b.full, now, permits)
		return nil
	}
	g := &localHold{now + s.lease, permits}
	b.full = max(b.full, g.end)
	b.held = append(slices.DeleteFunc(b.held, func(g *localHold) bool { return g.isOver(now) }), g)
	return g
}

// refund returns permits of a request that took them at a time, less those that have refilled since.
func (b *bucket) refund(s shape, taken, now, permits int64) {
	if due := s.time(permits) - (now - taken); due > 0 {
		b.full = max(now, b.full-due)
	}
}

// sweepEvery is the time between sweeps of full buckets.
const sweepEvery = time.Second

// decide decides a request by shares of its limiter's policies. It returns false in these cases:
//
//   - The policies or the name of a limiter are unknown.
//   - The request costs more than a share ever holds.
//   - There is no room for another bucket.
func (b *buckets) decide(l limit.Joinable, permits int64, share float64) (o limit.Outcome, r receipt.Receipt, ok bool) {
	keys, shapes := sharesOf(l, share)
	if keys == nil {
		return o, r, false
	}
	for _, s := range shapes {
		if s.capacity < permits && !s.owes {
			return o, r, false
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.fitLocked(keys, now) {
		return o, r, false
	}
	each := make([]rratelimiter.Decision, len(shapes))
	for i, s := range shapes {
		each[i] = s.decide(b.all[keys[i]], now, permits)
	}
	o.Result, o.Local, o.Decision = limit.Rejected, true, combineDecisions(each)
	if o.Decision.Allowed {
		var held []*localHold
		b.updateLocked(keys, now, func(i int, one *bucket) {
			if g := one.take(shapes[i], now, permits); g != nil {
				held = append(held, g)
			}
			each[i] = shapes[i].decide(*one, now, 0)
		})
		o.Result, o.Decision = limit.Acquired, combineDecisions(each)
		r = receipt.Receipt{Permits: permits, Local: func(more int64) { b.adjust(keys, shapes, now, more) }}
		if held != nil {
			r.Hold = hold.Local(func() { b.giveBack(held) })
		}
	}
	if len(each) > 1 {
		o.Each = each
	}
	return o, r, true
}

// adjust takes more permits than a request took at a time, free or not, or refunds some if more is negative. Permits
// that are held stay.
func (b *buckets) adjust(keys []bucketKey, shapes []shape, taken, more int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.fitLocked(keys, now) {
		return
	}
	b.updateLocked(keys, now, func(i int, one *bucket) {
		switch {
		case shapes[i].lease > 0:
		case more > 0:
			one.take(shapes[i], now, more)
		default:
			one.refund(shapes[i], taken, now, -more)
		}
	})
}

// giveBack returns the permits that a request holds.
func (b *buckets) giveBack(held []*localHold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range held {
		g.permits = 0
	}
}

// updateLocked updates the bucket of each key. The lock is held.
func (b *buckets) updateLocked(keys []bucketKey, now int64, update func(i int, one *bucket)) {
	if b.all == nil {
		b.all = make(map[bucketKey]bucket)
		b.nextSweep.Store(now + int64(sweepEvery))
	}
	for i, key := range keys {
		one := b.all[key]
		update(i, &one)
		b.all[key] = one
	}
}

// fitLocked reports whether there is room for the buckets that are missing. The lock is held.
func (b *buckets) fitLocked(keys []bucketKey, now int64) bool {
	if len(b.all)+len(keys) > maxBuckets {
		b.sweepLocked(now)
	}
	isMissing := func(key bucketKey) bool { return b.all[key].full == 0 }
	return len(b.all)+len(keys) <= maxBuckets || !slices.ContainsFunc(keys, isMissing)
}

// sweepIfDue sweeps if a sweep is due.
func (b *buckets) sweepIfDue() {
	if b.now() < b.nextSweep.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepLocked(b.now())
}

// sweepLocked drops full buckets, at most once in sweepEvery. The lock is held.
func (b *buckets) sweepLocked(now int64) {
	if now < b.nextSweep.Load() {
		return
	}
	b.nextSweep.Store(now + int64(sweepEvery))
	maps.DeleteFunc(b.all, func(_ bucketKey, one bucket) bool { return one.full <= now })
	if len(b.all) == 0 {
		b.all = nil
		b.nextSweep.Store(0)
	}
}

// sharesOf returns the bucket of each policy of a limiter, and its shape. It returns nil if a policy or the name of its
// limiter is unknown.
func sharesOf(l limit.Joinable, share float64) (keys []bucketKey, shapes []shape) {
	for _, m := range membersOf(l) {
		d, ok := policy.Of(localPolicyOf(m))
		if !ok || m.Name == "" {
			return nil, nil
		}
		keys, shapes = append(keys, bucketKey{m.Name, d.Key}), append(shapes, shapeOf(d, share))
	}
	return keys, shapes
}

// shape is a share of a policy as a token bucket. The bucket starts full and gets one permit in
// each period. All numbers are integers, so no permit is granted a nanosecond early.
type shape struct {
	limit    int64         // Decision.Limit
	capacity int64         // 0 grants nothing
	period   time.Duration // at least 1
	owes     bool          // a full bucket grants more than it holds, as limit.Smooth does
	lease    int64         // of permits that requests hold, which is no bucket; else 0
}

// longestPeriod is the longest time of a bucket. Twice that is still a time.Duration.
const longestPeriod = 1 << 61

// shapeOf returns the shape of a share of a valid policy. A strict one grants at most the share in any interval: the
// capacity, and the permits that return in one interval, add up to it.
func shapeOf(d policy.Description, share float64) shape {
	most, returns := shareOf(d.Local.Permits, share), float64(d.Local.Returns)*share
	s := shape{limit: most, capacity: most, period: 1}
	switch {
	case d.Refill == policy.Held:
		s.lease = int64(d.Local.Interval)
		return s
	case d.Local.Strict:
		s.capacity = (most + 1) / 2
		returns = float64(most - s.capacity + 1)
	case d.Refill == policy.Pausing:
		s.limit = 0
	case d.Refill == policy.OnCredit:
		s.limit, s.owes, s.capacity = shareOf(d.Quota, share), true, max(1, most)
	}
	s.period = max(1, time.Duration(min(math.Ceil(float64(d.Local.Interval)/returns), longestPeriod)))
	s.capacity = min(s.capacity, int64(longestPeriod/s.period))
	return s
}

// shareOf returns a share of permits, rounded down, but tolerates the rounding error of a decimal
// share: 0.29 of 100 is 29.
func shareOf(permits int64, share float64) int64 {
	return min(permits, int64(float64(permits)*share*(1+1e-12)))
}

// decide returns the decision of a bucket. That of no permits is a grant, also while the bucket owes some.
func (s shape) decide(one bucket, now, permits int64) rratelimiter.Decision {
	if s.lease > 0 {
		return s.decideHeld(one.held, now, permits)
	}
	behind := time.Duration(max(0, one.full-now)) // the time until it is full
	room := time.Duration(s.capacity)*s.period - behind
	d := rratelimiter.Decision{Limit: s.limit, Remaining: int64(max(0, room) / s.period), ResetAfter: behind}
	needs := permits
	if s.owes {
		needs = min(permits, s.capacity)
	}
	if short := time.Duration(needs)*s.period - room; short > 0 && permits > 0 {
		d.RetryAfter = short
		return d
	}
	d.Allowed = true
	return d
}

// decideHeld returns the decision of a share that requests hold. RetryAfter is a guess.
func (s shape) decideHeld(held []*localHold, now, permits int64) rratelimiter.Decision {
	d := rratelimiter.Decision{Limit: s.limit, Remaining: s.limit}
	first := now + int64(time.Second)
	for _, g := range held {
		if !g.isOver(now) {
			d.Remaining = max(0, d.Remaining-g.permits)
			d.ResetAfter = max(d.ResetAfter, time.Duration(g.end-now))
			first = min(first, g.end)
		}
	}
	if d.Allowed = permits <= d.Remaining; !d.Allowed {
		d.RetryAfter = time.Duration(first - now)
	}
	return d
}

// time returns the time in which a bucket gets permits, at most the longest one.
func (s shape) time(permits int64) int64 {
	return min(permits, longestPeriod/int64(s.period)) * int64(s.period)
}

// fullAfter takes permits, free or not. It returns the new time at which the bucket is full.
func (s shape) fullAfter(full, now, permits int64) int64 {
	return min(max(full, now)+s.time(permits), now+longestPeriod)
}

// NextPermit returns the time after which the bucket of a share of a policy has another whole permit, and the capacity of
// that bucket. The time is 0 if it is unknown, or if a request may take more than Remaining before.
func NextPermit(d policy.Description, share float64, of rratelimiter.Decision) (after time.Duration, capacity int64) {
	s := shapeOf(d, share)
	behind := s.capacity - 1 - of.Remaining // the permits that return after that one
	if behind < 0 || of.ResetAfter <= 0 || s.owes && of.Remaining > 0 {
		return 0, s.capacity
	}
	return max(0, of.ResetAfter-time.Duration(behind)*s.period), s.capacity
}

// HasShare reports whether the policies of a limiter are known.
func HasShare(l limit.Joinable) bool {
	keys, _ := sharesOf(l, 1)
	return keys != nil
}

// MostRestrictive returns the index of the decision that clients see of several: the denial with the longest time
// to retry, or else the grant with the fewest permits left.
func MostRestrictive(each []rratelimiter.Decision) int {
	shown := 0
	for i, one := range each {
		best := each[shown]
		switch {
		case one.Allowed != best.Allowed:
			if best.Allowed {
				shown = i
			}
		case one.Allowed && one.Remaining < best.Remaining, !one.Allowed && one.RetryAfter > best.RetryAfter:
			shown = i
		}
	}
	return shown
}

// combineDecisions combines the decisions of several policies, as limit.Limiter.Take does.
func combineDecisions(each []rratelimiter.Decision) (d rratelimiter.Decision) {
	if len(each) == 0 {
		return d
	}
	d = each[MostRestrictive(each)]
	ofPause, fewest := d.Limit == 0, int64(math.MaxInt64)
	for _, one := range each {
		d.ResetAfter = max(d.ResetAfter, one.ResetAfter)
		if ofPause && one.Limit > 0 && one.Remaining < fewest { // a Pause has none of its own
			d.Limit, fewest = one.Limit, one.Remaining
		}
	}
	return d
}
