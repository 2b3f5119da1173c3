package engine

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxDenials = 65_536      // that are remembered
	sameHash   = 4           // of limiters whose IDs have the same hash
	sweepEvery = time.Second // denials that have ended are removed at most so often
)

// denials has the last denial of limiters whose permits are exhausted. It never grants.
type denials struct {
	maxAge time.Duration

	mu       sync.Mutex                                              // of writers
	slots    [maxDenials / sameHash][sameHash]atomic.Pointer[denial] // by a hash of the ID, the newest first
	sweeping bool                                                    // a sweep is scheduled
}

// denial is a reply that denied permits.
type denial struct {
	knowledge
	id     string        // of the limiter
	until  time.Duration // after dated, when they may be free
	maxAge time.Duration // the Client's, or less for a limiter that must not expire
}

// remains returns how long a denial holds by the clock of the process.
func (d *denial) remains(now time.Time) time.Duration {
	return min(d.until, d.maxAge) - Elapsed(d.Sent, now)
}

// slotsOf returns the slots of an ID. Few others have the same.
func (t *denials) slotsOf(id string) *[sameHash]atomic.Pointer[denial] {
	return &t.slots[maphash.String(seed, id)%uint64(len(t.slots))]
}

// get returns the denial of an ID, or nil.
func (t *denials) get(id string) *denial {
	slots := t.slotsOf(id)
	for i := range slots {
		if d := slots[i].Load(); d != nil && d.id == id {
			return d
		}
	}
	return nil
}

// store stores a denial, unless that of a later call is there. If all slots are taken, the oldest denial leaves.
func (t *denials) store(d *denial, remains time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.get(d.id); other != nil && other.Sent.After(d.Sent) {
		return
	}
	slots, moves := t.slotsOf(d.id), d
	for i := range slots {
		if moves = slots[i].Swap(moves); moves == nil || moves.id == d.id {
			break
		}
	}
	if !t.sweeping {
		t.sweeping = true
		time.AfterFunc(max(remains, sweepEvery), t.sweep)
	}
}

// drop removes a denial, unless a newer one has replaced it.
func (t *denials) drop(d *denial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.slotsOf(d.id)
	for i := range slots {
		slots[i].CompareAndSwap(d, nil)
	}
}

// sweep removes the denials that have ended by the clock of the process.
func (t *denials) sweep() {
	now, next := time.Now(), Never
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		for j := range t.slots[i] {
			slot := &t.slots[i][j]
			if d := slot.Load(); d == nil {
				continue
			} else if remains := d.remains(now); remains > 0 {
				next = min(next, remains)
			} else {
				slot.Store(nil)
			}
		}
	}
	if t.sweeping = next < Never; t.sweeping {
		time.AfterFunc(max(next, sweepEvery), t.sweep)
	}
}

// denyFromMemory answers a request from memory.
func (l *Limiter) denyFromMemory(ask Ask) (r Result, denied bool) {
	if d, since := l.lookupDenial(ask.Permits); d != nil {
		r, denied = d.resultOfDenial(ask, since)
		r.From = FromMemory
	}
	return r, denied
}

// denyWaiter answers a waiter from memory. It returns an error if the permits cannot be free before the deadline of a
// context.
func (l *Limiter) denyWaiter(until context.Context, ask Ask, result *Result) error {
	deadline, limited := until.Deadline()
	if l.Engine.denials == nil || !limited {
		return nil
	}
	d, since := l.lookupDenial(ask.Permits)
	if d == nil {
		return nil
	}
	after := d.Forecast.Earliest(0, ask.Permits) - since
	if after <= time.Until(deadline) {
		return nil
	}
	*result, _ = d.resultOfDenial(ask, since)
	result.From = FromMemory
	return &deadlineError{permits: ask.Permits, name: l.Name, after: after}
}

// lookupDenial returns the denial that covers a request, and how long ago its call was sent; nil if there is none. It
// must be of as many permits or fewer, younger than its maxAge, from before the time at which permits return, and of
// the limiter's version.
func (l *Limiter) lookupDenial(permits int64) (d *denial, since time.Duration) {
	g := l.Engine
	if d = g.denials.get(l.ID); d == nil || permits < d.Denied || d.isAbove(permits) ||
		d.version != g.changes.versionOf(l.DependsOn) {
		return nil, 0
	}
	since, age := l.since(&d.knowledge)
	if since < 0 || since >= d.until || age >= d.maxAge { // since is below 0 if the clock was set back
		g.denials.drop(d)
		return nil, 0
	}
	return d, since
}

// since returns how long ago the call of a report was sent: by the limiter's clock, and by the clock that is furthest
// ahead.
func (l *Limiter) since(k *knowledge) (since, age time.Duration) {
	g, now := l.Engine, time.Now()
	age = Elapsed(k.Sent, now)
	switch {
	case g.ServerTime:
		return age + l.Tick, age // the script rounds the time down
	case g.ownClock:
		now = g.now()
	}
	since = now.Round(0).Sub(k.dated)
	return since, max(since, age)
}

// remember stores the denial of a call, unless this Client has changed the limiter since the call was sent. If the call
// took permits, it first ends the denials of limiters that share a key with this one: they count what was free before.
func (l *Limiter) remember(b *Batch) {
	g, k := l.Engine, b.knowledge
	if g.denials == nil {
		return
	}
	if b.Granted+b.Prefetch.Granted > 0 {
		g.changes.raise(l.DependsOn)
		k.version += uint64(len(l.DependsOn)) // its own denial counts them
	}
	if k.Forecast == nil || k.Denied == 0 || k.version != g.changes.versionOf(l.DependsOn) {
		return
	}
	answer, known := k.Forecast.Denied(k.Denied)
	d := &denial{k, l.ID, answer.RetryAfter, min(g.denials.maxAge, k.Forecast.Renew()/8)}
	// By the process's clock: the program's own may panic, and the callers of the next call wait.
	if remains := d.remains(time.Now()); known && remains > 0 {
		g.denials.store(d, remains)
	}
}
