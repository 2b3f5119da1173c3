package engine

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxDenials = 65_536 // denials.most
	// sweepEvery is how often denials that have ended are removed.
	sweepEvery = time.Second
)

// denials caches the last denial of limiters whose permits are exhausted. It never grants.
type denials struct {
	maxAge time.Duration
	most   int      // limiters with a cached denial; denials of others are not cached
	byID   sync.Map // ID -> *denial: read without a lock, written under mu

	mu       sync.Mutex
	count    int  // denials in byID
	sweeping bool // a sweep is scheduled
	// versions counts changes by a hash of the key: a denial holds only while the sum of those of its keys is that of
	// its call. Few keys share a counter. If a change raises that of another key too, Redis is asked once more.
	seed     maphash.Seed
	versions [1 << 14]atomic.Uint64
}

// denial is a reply that denied permits.
type denial struct {
	limiter  *Limiter
	forecast Forecast
	maxAge   time.Duration // the Client's, or less for a limiter that must not expire
	permits  int64         // the fewest that were denied
	until    time.Duration // after dated, when they may be free
	dated    time.Time     // when the call was sent, by the limiter's clock, without a monotonic reading
	sent     time.Time     // the same by the clock of the process
	version  uint64        // of the limiter then
}

// age returns how long ago the call of a denial was sent. It is the larger age of two clocks: the
// monotonic one may stop while the machine sleeps, and the wall clock may be set back.
func (d *denial) age(now time.Time) time.Duration {
	return max(now.Sub(d.sent), now.Round(0).Sub(d.sent.Round(0)))
}

// since returns how long ago the call of a denial was sent: by the limiter's clock, and by the
// clock that is furthest ahead.
func (d *denial) since() (since, age time.Duration) {
	g, now := d.limiter.Engine, time.Now()
	age = d.age(now)
	switch {
	case g.ServerTime():
		return age + d.limiter.tick(), age // the script rounds the time down
	case g.ownClock:
		now = g.now()
	}
	since = now.Round(0).Sub(d.dated)
	return since, max(since, age)
}

// deny answers a request from a cached denial.
func (l *Limiter) deny(ask Ask) (Result, bool) {
	d, since := l.cachedDenial(ask.Permits)
	if d == nil {
		return Result{}, false
	}
	r, known := deniedBy(d.forecast, ask, since)
	if !known {
		return Result{}, false
	}
	r.From = FromMemory
	return r, true
}

// deniedBy returns the result of a request that is denied by a forecast of that age. It returns false if the forecast
// does not determine it.
func deniedBy(f Forecast, ask Ask, age time.Duration) (r Result, known bool) {
	r.Answer, known = f.Denied(ask.Permits)
	r.RetryAfter -= age
	r.ResetAfter = max(0, r.ResetAfter-age)
	if !ask.Each {
		return r, known
	}
	r.Parts = f.Parts(ask.Permits)
	for i := range r.Parts {
		p := &r.Parts[i]
		p.RetryAfter, p.ResetAfter = max(0, p.RetryAfter-age), max(0, p.ResetAfter-age)
		p.Allowed = p.RetryAfter == 0 // one part may have its permits free again while another denies
	}
	return r, known
}

// denyUntil answers a waiter from a cached denial. It returns an error if the permits cannot be free
// before the deadline.
func (l *Limiter) denyUntil(ask Ask, deadline time.Time, result *Result) error {
	if l.Engine.denials == nil || deadline.IsZero() {
		return nil
	}
	d, since := l.cachedDenial(ask.Permits)
	if d == nil {
		return nil
	}
	if after := d.forecast.Earliest(0, ask.Permits) - since; after > time.Until(deadline) {
		*result, _ = l.deny(ask)
		result.From = FromMemory
		return &deadlineError{permits: ask.Permits, name: l.Name, after: after}
	}
	return nil
}

// cachedDenial returns the cached denial that covers a request, and how long ago its call was sent; nil if
// there is none. The denial must be of as many permits or fewer, younger than maxAge, from before the time at which
// permits return, and of the limiter's version.
func (l *Limiter) cachedDenial(permits int64) (*denial, time.Duration) {
	a := l.Engine.denials
	found, ok := a.byID.Load(l.ID)
	if !ok {
		return nil, 0
	}
	d := found.(*denial) //nolint:errcheck,forcetypeassert // nothing else is there
	if permits < d.permits || permits > d.forecast.Limit() || d.version != a.version(l) {
		return nil, 0
	}
	// Below 0 if the clock was set back.
	since, age := d.since()
	if since < 0 || since >= d.until || age >= d.maxAge {
		a.drop(d)
		return nil, 0
	}
	return d, since
}

// remember caches the denial of a batch, unless this Client has changed the limiter since the call
// was sent.
func (l *Limiter) remember(b *Batch) {
	if b.Forecast == nil || b.Denied == 0 {
		return
	}
	answer, known := b.Forecast.Denied(b.Denied)
	if !known {
		return
	}
	a := l.Engine.denials
	d := &denial{limiter: l, forecast: b.Forecast, maxAge: min(a.maxAge, b.Forecast.Renew()/8), permits: b.Denied,
		until: answer.RetryAfter, dated: b.sent.dated, sent: b.sent.at, version: b.sent.version}
	// By the process's clock: the program's own may panic, and the callers of the next call wait.
	if d.age(time.Now()) < min(d.until, d.maxAge) {
		a.store(d)
	}
}

// store is remember for a denial that has not ended.
func (a *denials) store(d *denial) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version(d.limiter) != d.version {
		return
	}
	if found, ok := a.byID.Load(d.limiter.ID); ok && found.(*denial).sent.After(d.sent) {
		return
	}
	a.remove(d.limiter.ID)
	if a.count >= a.most {
		return
	}
	a.byID.Store(d.limiter.ID, d)
	a.count++
	if !a.sweeping {
		a.sweeping = true
		time.AfterFunc(sweepEvery, a.sweep)
	}
}

// remove removes the denial of an ID. The denials are locked.
func (a *denials) remove(id string) {
	if _, found := a.byID.LoadAndDelete(id); found {
		a.count--
	}
}

// drop removes a denial, unless a newer one has replaced it.
func (a *denials) drop(d *denial) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found, ok := a.byID.Load(d.limiter.ID); ok && found == d {
		a.remove(d.limiter.ID)
	}
}

// sweep removes the denials that have ended: by the clock of the process, or by a change.
func (a *denials) sweep() {
	now := time.Now()
	for _, found := range a.byID.Range {
		if d := found.(*denial); d.age(now) >= min(d.until, d.maxAge) || d.version != a.version(d.limiter) {
			a.drop(d)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sweeping = a.count > 0; a.sweeping {
		time.AfterFunc(sweepEvery, a.sweep)
	}
}

// version returns a number that grows with each change of a limiter by this Client.
func (a *denials) version(l *Limiter) (version uint64) {
	if a == nil {
		return 0
	}
	for _, key := range l.DependsOn {
		version += a.counter(key).Load()
	}
	return version
}

func (a *denials) counter(key string) *atomic.Uint64 {
	return &a.versions[maphash.String(a.seed, key)%uint64(len(a.versions))]
}

// forget ends the denials of the limiters that depend on a key, also those of calls in flight.
func (a *denials) forget(key string) {
	if a != nil {
		a.counter(key).Add(1)
	}
}

// forgetAfterGrant ends the denials of limiters that share a key with one of which a call took permits: they count
// what was free before. It returns the version for a denial of that call itself, which another change ends.
func (a *denials) forgetAfterGrant(l *Limiter, version uint64) uint64 {
	for _, key := range l.DependsOn {
		a.forget(key)
	}
	return version + uint64(len(l.DependsOn))
}
