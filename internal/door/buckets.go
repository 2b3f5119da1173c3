package door

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// mostNames is how many names have buckets at once. Those beyond are refused: to forget one that is not full would grant it its
// share anew.
const mostNames = 1 << 16

// buckets is the shares of limits that this process grants by itself. A name is kept until its buckets are full again, also
// when Redis is back: an outage that comes again soon finds what was taken.
type buckets struct {
	clock
	count atomic.Int64 // names
	clean atomic.Int64 // when to look for those that are full

	mu     sync.Mutex
	byName map[string][]int64 // for each policy when its bucket is full
}

// cleanEvery is how often full buckets, and pauses that are over, are looked for.
const cleanEvery = time.Second

// take decides a request by shares of its limiter's policies. It says false where those, or the limiter's name, are not known, where
// it costs more than a share ever holds, and where there is no room for another name.
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
	full := b.find(name, len(shapes), now)
	if full == nil {
		return Answer{}, false
	}
	each := make([]rratelimiter.Decision, len(shapes))
	for i, s := range shapes {
		each[i] = s.decide(full[i], now, q.Permits)
	}
	a := Answer{Result: Refused, Local: true, Decision: together(each)}
	if a.Decision.Allowed {
		a.Result = Granted
		for i, s := range shapes {
			full[i] = s.take(full[i], now, q.Permits)
			each[i] = s.decide(full[i], now, 0)
		}
		a.Decision = together(each)
	}
	if len(each) > 1 {
		a.Each = each
	}
	return a, true
}

// settle takes more permits, whether they are there or not, or gives some back.
func (b *buckets) settle(q Request, share float64, more int64) {
	shapes := shapesOf(q.Policies, share)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if full := b.find(NameOf(q.Limiter), len(shapes), now); full != nil {
		for i, s := range shapes {
			full[i] = s.take(full[i], now, more)
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

// find gives the buckets of a name, full ones where there are none yet, and nil where there is no room. The lock is held.
func (b *buckets) find(name string, policies int, now int64) []int64 {
	full := b.byName[name]
	if full == nil && len(b.byName) >= mostNames {
		if b.sweep(now); len(b.byName) >= mostNames {
			return nil
		}
	}
	if len(full) < policies {
		full = append(full, make([]int64, policies-len(full))...)
		if b.byName == nil {
			b.byName = make(map[string][]int64)
		}
		b.byName[name] = full
		b.count.Store(int64(len(b.byName)))
	}
	return full
}

// tidy forgets now and then what is full. It costs nothing where there are no buckets.
func (b *buckets) tidy() {
	if b.count.Load() == 0 || b.now() < b.clean.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(b.now())
}

// sweep forgets the names whose buckets are full, unless it has done so just now. The lock is held.
func (b *buckets) sweep(now int64) {
	if now < b.clean.Load() {
		return
	}
	b.clean.Store(now + int64(cleanEvery))
	for name, full := range b.byName {
		rest := false
		for _, at := range full {
			rest = rest || at > now
		}
		if !rest {
			delete(b.byName, name)
		}
	}
	if len(b.byName) == 0 {
		b.byName = nil
	}
	b.count.Store(int64(len(b.byName)))
}
