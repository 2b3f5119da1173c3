package engine

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// denials is what an Engine remembers of exhausted limiters. Nothing is ever granted from memory.
type denials struct {
	byID  sync.Map // ID -> *denial
	index index    // of those in byID
	// versions counts changes, by a hash of their subject. What was known before one is not remembered after it.
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
	limiter *Limiter
	outlook Outlook       // from the moment asked on
	permits int64         // the fewest that were denied
	until   time.Duration // after the moment asked: they may be free then
	asked   time.Time
	end     *time.Timer // forgets it
	holds   atomic.Bool // this client has not changed the limiter since it was asked: before that is known, it answers nothing

	watched bool         // Redis tells of changes
	checked atomic.Int64 // when the cache was last looked at, as time since asked
}

// checkEvery is how often the cache of rueidis is looked at, whether Redis told of a change. It is a look into memory, but
// one that takes longer than all the rest of a denial.
const checkEvery = time.Millisecond

func newDenials() *denials { return &denials{seed: maphash.MakeSeed()} }

// deny answers a request from memory, where that is possible and wanted.
func (l *Limiter) deny(ask Ask) (Result, bool) {
	all := l.Engine.denials
	found, ok := all.byID.Load(l.ID)
	if !ok {
		return Result{}, false
	}
	d := found.(*denial)
	since := time.Since(d.asked)
	if !d.holds.Load() || ask.Permits < d.permits || ask.Permits > d.outlook.Limit() || since >= d.until {
		return Result{}, false
	}
	answer, known := d.outlook.Denied(ask.Permits)
	if !known {
		return Result{}, false
	}
	if checked := d.checked.Load(); d.watched && int64(since)-checked > int64(checkEvery) &&
		d.checked.CompareAndSwap(checked, int64(since)) && !l.peek(d) {
		all.drop(d)
		return Result{}, false
	}
	answer.RetryAfter -= since
	answer.ResetAfter -= since
	r := Result{Answer: answer, From: FromMemory}
	if ask.Each {
		r.Extra = d.parts(ask.Permits, since)
	}
	return r, true
}

// parts is what each part says by now: one may have its permits free again while another refuses.
func (d *denial) parts(permits int64, since time.Duration) []Answer {
	parts := d.outlook.Parts(permits)
	for i := range parts {
		p := &parts[i]
		p.RetryAfter, p.ResetAfter = max(0, p.RetryAfter-since), max(0, p.ResetAfter-since)
		p.Allowed = p.RetryAfter == 0
	}
	return parts
}

// remember keeps what a batch learned of an exhausted limiter, known being the version before it was sent. Where Redis is
// to tell of changes that takes calls of their own, for which nobody waits.
func (l *Limiter) remember(b *Batch, known uint64) {
	if b.Outlook == nil {
		return
	}
	answer, ok := b.Outlook.Denied(b.Denied)
	if !ok || time.Until(b.asked.Add(answer.RetryAfter)) <= checkEvery {
		return
	}
	all := l.Engine.denials
	d := &denial{limiter: l, outlook: b.Outlook.Keep(), permits: b.Denied, until: answer.RetryAfter, asked: b.asked}
	if all.caching.Load() == cachingNo {
		all.keep(d, known)
		return
	}
	go func() {
		if l.watch(d) {
			all.keep(d, known)
		}
	}()
}

// keep remembers a denial, unless this client has changed the limiter since it was of that version.
func (a *denials) keep(d *denial, known uint64) {
	left := time.Until(d.asked.Add(d.until))
	if left <= 0 {
		return
	}
	a.index.add(d.limiter)
	d.end = time.AfterFunc(left, func() {
		if a.byID.CompareAndDelete(d.limiter.ID, d) {
			a.index.remove(d.limiter)
		}
	})
	if before, ok := a.byID.Swap(d.limiter.ID, d); ok {
		a.stop(before.(*denial))
	}
	// Whoever changes the limiter counts first and forgets then. And the end may have come before there was anything to forget.
	if a.version(d.limiter) != known || time.Since(d.asked) >= d.until {
		a.drop(d)
		return
	}
	d.holds.Store(true)
}

// stop lets go of a denial that is in byID no more.
func (a *denials) stop(d *denial) {
	d.end.Stop()
	a.index.remove(d.limiter)
}

func (a *denials) drop(d *denial) {
	if a.byID.CompareAndDelete(d.limiter.ID, d) {
		a.stop(d)
	}
}

// version counts the changes that this client has made to a limiter, and to those that share its counters.
func (a *denials) version(l *Limiter) (version uint64) {
	if a == nil {
		return 0
	}
	if l.Subjects == nil {
		return a.counter(l.ID).Load()
	}
	for _, subject := range l.Subjects {
		version += a.counter(subject).Load()
	}
	return version
}

func (a *denials) counter(subject string) *atomic.Uint64 {
	return &a.versions[maphash.String(a.seed, subject)%uint64(len(a.versions))]
}

// forget drops what is remembered of the limiters with a subject, and what is about to be.
func (a *denials) forget(subject string) {
	if a == nil {
		return
	}
	a.counter(subject).Add(1)
	a.forgetID(subject)
	for _, id := range a.index.of(subject) {
		a.forgetID(id)
	}
}

func (a *denials) forgetID(id string) {
	if before, ok := a.byID.LoadAndDelete(id); ok {
		a.stop(before.(*denial))
	}
}
