package engine

import (
	"context"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

const (
	leastPrefetch = 2 // permits of a prefetch; fewer save no call, since their refund is a call too
	// maxPrefetches is the largest number of prefetches of a limiter: one that is nearly used up, the next
	// one, and two for requests that exceed both.
	maxPrefetches = 4
	fetchTrips    = 2 // the next prefetch is fetched this many round trips before a prefetch ends
)

func (p *Prefetch) remains(now time.Time) time.Duration { return p.Lasts - Elapsed(p.sent, now) }

func (p *Prefetch) expired(now time.Time) bool { return p.remains(now) <= 0 }

// prefetchSet holds the prefetches of a limiter and the demand, which decides how large the next prefetch is.
// Its entry guards it.
type prefetchSet struct {
	limiter        *Limiter
	span           time.Duration // for which permits are prefetched at most
	active         []Prefetch    // the oldest first
	newest         Prefetch      // that arrived, also once it is used up: decisions report its numbers
	free           int64         // permits that are free in Redis: the least that replies have reported, less those granted since
	replies        []freeReply   // the latest ones in order of arrival; Redis may have computed any of them last
	taken          int64         // permits that calls were granted since the newest prefetch
	beside         int64         // permits that other calls were granted while the call in flight asks for a prefetch
	demanded       int64         // permits requested since spanBegan
	demandedBefore int64         // permits requested in the span before that
	spanBegan      time.Time
	fetch          *transfer     // of the call in flight that asks for a prefetch, or nil
	roundTrip      time.Duration // how long the last one took
	revokes        uint64        // so far: a prefetch that was asked for before one is not used after it
	timer          *time.Timer
}

// countDemand counts permits that callers ask for, for the next prefetch. The entry is locked.
func (l *Limiter) countDemand(e *entry, permits int64) {
	now := time.Now()
	if e.prefetches == nil {
		s := &prefetchSet{limiter: l, span: l.Engine.prefetch, spanBegan: now}
		s.timer = time.AfterFunc(s.span, func() { l.expire(e, s) })
		e.prefetches = s
		l.Engine.registry.index.add(e, l.DependsOn)
	}
	e.prefetches.countDemand(now, permits)
}

// expire refunds the unused permits of expired prefetches. Without demand it removes the prefetch set.
func (l *Limiter) expire(e *entry, s *prefetchSet) {
	e.mu.Lock()
	if e.prefetches != s {
		e.mu.Unlock()
		return
	}
	now := time.Now()
	s.active = slices.DeleteFunc(s.active, func(p Prefetch) bool {
		over := p.unused == 0 || p.expired(now)
		if over {
			s.returnUnused(&p, nil)
		}
		return over
	})
	if len(s.active) > 0 || s.fetch != nil || s.demand(now) > 0 {
		s.timer.Reset(s.next(now))
	} else {
		e.prefetches = nil
	}
	l.Engine.registry.unlockEntry(e)
}

// take takes the permits of a request from a prefetch and sets the result. It reports whether it did, and
// whether it is time to fetch the next prefetch. The entry is locked.
func (s *prefetchSet) take(ask Ask, result *Result) (ok, fetch bool) {
	now := time.Now()
	for i := range s.active {
		p := &s.active[i]
		remains := p.remains(now)
		if p.unused < ask.Most() || remains <= 0 || ask.Each && s.newest.Parts == nil {
			continue
		}
		s.grant(p, ask, result, now)
		s.countDemand(now, ask.Most())
		return true, i == len(s.active)-1 && s.runsOut(p, now, remains)
	}
	return false, false
}

// grant grants a request from a prefetch and sets the result.
func (s *prefetchSet) grant(p *Prefetch, ask Ask, result *Result, now time.Time) {
	p.unused -= ask.Most()
	result.Decision = Decision{Allowed: true}
	result.Granted, result.From, result.Refund = ask.Most(), FromPrefetch, p.Refund
	if ask.Detail {
		result.Limit = s.newest.Limit
		result.Remaining = min(result.Limit, max(0, s.free)+s.unused(now))
		result.ResetAfter = max(0, s.newest.Reset-now.Sub(s.newest.sent))
	}
	if ask.Each {
		result.Parts = s.parts(now)
	}
}

// serve serves waiters, in order, and returns those to wake. The entry is locked.
func (s *prefetchSet) serve(q *queue) (done []*waiter) {
	now := time.Now()
	for i := range s.active {
		p := &s.active[i]
		for w := q.first; w != nil && w.Permits <= p.unused && !p.expired(now) &&
			len(done) < MaxRequests; w = q.first {
			s.grant(p, w.Ask, &w.Result, now)
			w.finish(nil)
			q.remove(w)
			done = append(done, w)
		}
	}
	return done
}

// addToAll is addTo for the requests of a call that was answered.
func (s *prefetchSet) addToAll(b *Batch) {
	for _, r := range b.Requests {
		if r.Detail && r.Allowed {
			s.addTo(&r.Result, r.Ask)
		}
	}
}

// addTo adds the prefetched permits to a result of Redis, which does not know how many are unused. They
// are granted to a request with UpTo, and remain for others. A prefetch that Redis may have granted after it computed
// the result is left out: its permits are still free in the result. The entry is locked.
func (s *prefetchSet) addTo(result *Result, ask Ask) {
	if ask.UpTo > 0 {
		s.grantUpTo(result, ask.Most())
	}
	left, now := int64(0), time.Now()
	for i := range s.active {
		if p := &s.active[i]; !p.expired(now) && !p.arrived.After(result.deducted) {
			left += p.unused
		}
	}
	result.Remaining = min(result.Remaining+left, max(result.Remaining, result.Limit))
	for i := range result.Parts {
		one := &result.Parts[i]
		one.Remaining = min(one.Remaining+left, max(one.Remaining, one.Limit))
	}
}

// grantUpTo grants permits of all prefetches, up to a total of most.
func (s *prefetchSet) grantUpTo(result *Result, most int64) {
	now, before := time.Now(), result.Granted
	for i := range s.active {
		p := &s.active[i]
		if n := min(p.unused, most-result.Granted); n > 0 && !p.expired(now) {
			p.unused -= n
			result.Granted += n
		}
	}
	if result.Granted > before && !result.Allowed {
		result.Allowed, result.RetryAfter, result.From = true, 0, FromPrefetch
	}
}

// parts returns the answer of each part, by the newest prefetch, for a request that was served.
func (s *prefetchSet) parts(now time.Time) []Decision {
	parts, left := slices.Clone(s.newest.Parts), s.unused(now)
	for i := range parts {
		parts[i].Remaining = min(max(0, parts[i].Remaining-s.taken)+left, max(parts[i].Remaining, parts[i].Limit))
		parts[i].ResetAfter = max(0, parts[i].ResetAfter-now.Sub(s.newest.sent))
	}
	return parts
}

// unused returns the permits that all prefetches have left.
func (s *prefetchSet) unused(now time.Time) (left int64) {
	for i := range s.active {
		if !s.active[i].expired(now) {
			left += s.active[i].unused
		}
	}
	return left
}

// countDemand counts the permits that callers ask for.
func (s *prefetchSet) countDemand(now time.Time, permits int64) {
	if since := now.Sub(s.spanBegan); since >= s.span {
		s.demandedBefore = s.demanded
		if since >= 2*s.span {
			s.demandedBefore = 0
		}
		s.demanded, s.spanBegan = 0, now
	}
	s.demanded = min(MaxPermits, s.demanded+permits)
}

// demand estimates how many permits callers asked for in the span before now.
func (s *prefetchSet) demand(now time.Time) int64 {
	before, latest, since := s.demandedBefore, s.demanded, now.Sub(s.spanBegan)
	if since >= s.span {
		before, latest, since = latest, 0, since-s.span
	}
	return latest + int64(float64(before)*float64(max(0, s.span-since))/float64(s.span))
}

// runsOut reports whether the newest prefetch will be used up, or expired, by the time that the next
// one can arrive.
func (s *prefetchSet) runsOut(p *Prefetch, now time.Time, remains time.Duration) bool {
	if s.fetch != nil {
		return false
	}
	ahead := fetchTrips * s.roundTrip
	if remains <= ahead {
		return true
	}
	return float64(p.unused)*float64(s.span) <= float64(s.demand(now))*float64(ahead)
}

// plan sets the prefetch that a batch asks for besides the permits of its requests. It drops prefetches that are used
// up. The entry is locked.
func (s *prefetchSet) plan(b *Batch) {
	if s.fetch != nil || s.limiter.Engine.changes.areInFlight(s.limiter.DependsOn) {
		return
	}
	if s.active = slices.DeleteFunc(s.active,
		func(p Prefetch) bool { return p.unused == 0 }); len(s.active) >= maxPrefetches {
		return
	}
	permits := s.demand(time.Now())
	for _, r := range b.Requests {
		permits -= r.Most()
	}
	if permits < leastPrefetch {
		return
	}
	b.Prefetch = Prefetch{Permits: permits, Span: s.span, revokes: s.revokes}
	s.fetch, s.beside = s.limiter.Engine.transfers.begin(s.limiter.DependsOn), 0
}

// store counts the permits of a call, and stores its prefetch if it asked for one, or refunds it if it must not be
// used.
func (s *prefetchSet) store(b *Batch) {
	s.taken += b.Granted
	s.storeFree(b)
	deducted := b.Sent // Redis granted prefetches that had arrived by then before it replied
	if b.Prefetch.Span == 0 {
		s.beside += b.Granted
	} else if s.storeFetched(b) {
		deducted = b.Prefetch.arrived
	}
	for _, r := range b.Requests {
		r.deducted = deducted
	}
}

// freeReply is the number of permits that are free in Redis, as a reply reported it.
type freeReply struct {
	free    int64
	arrived time.Time
}

// storeFree stores the permits that are free in Redis after a call. Redis computed its reply after those that
// arrived before it was sent. The others may be newer. A reply without the number, or an error, makes none of them newer.
func (s *prefetchSet) storeFree(b *Batch) {
	var free int64
	switch {
	case b.err == nil && b.Prefetch.Granted > 0:
		free = b.Prefetch.Free - s.beside // calls beside the prefetch may have been granted theirs after it
	case b.err == nil && b.Forecast != nil:
		free = b.Forecast.Free()
	default:
		s.free -= b.Granted
		for i := range s.replies {
			s.replies[i].free -= b.Granted
		}
		return
	}
	s.replies = slices.DeleteFunc(s.replies, func(r freeReply) bool { return !r.arrived.After(b.Sent) })
	s.replies = append(s.replies, freeReply{free, time.Now()})
	s.free = free
	for _, r := range s.replies {
		s.free = min(s.free, r.free)
	}
}

// storeFetched stores the prefetch of a call that asked for one, and reports whether callers can use it. Otherwise it is
// refunded, if there is one.
func (s *prefetchSet) storeFetched(b *Batch) (stored bool) {
	p, fetch, now := &b.Prefetch, s.fetch, time.Now()
	if s.fetch = nil; b.err == nil {
		s.roundTrip = now.Sub(b.Sent)
	}
	if b.err != nil || p.Granted == 0 {
		s.limiter.Engine.transfers.end(fetch, b.err)
		return false
	}
	// The permits of callers that have left belong to the same grant.
	p.unused, p.sent, p.arrived = p.Granted+b.LostPermits, b.Sent, now
	clear(b.Lost)
	b.Lost = b.Lost[:0]
	if s.revokes != p.revokes || p.expired(now) {
		s.returnUnused(p, fetch)
		return false
	}
	s.limiter.Engine.transfers.end(fetch, nil)
	s.active, s.newest, s.taken = append(s.active, *p), *p, s.beside
	s.timer.Reset(s.next(now))
	return true
}

// next returns the time until a prefetch expires.
func (s *prefetchSet) next(now time.Time) time.Duration {
	next := s.span
	for i := range s.active {
		next = min(next, s.active[i].remains(now))
	}
	return max(next, 0)
}

// returnUnused returns the unused permits of a prefetch to Redis, on a goroutine of its own. If that fails, they expire.
// The return is part of the transfer t, or of a new one if t is nil. It returns nil if no permit is unused.
func (s *prefetchSet) returnUnused(p *Prefetch, t *transfer) *transfer {
	permits, refund := p.unused, p.Refund
	if p.unused = 0; permits == 0 {
		return nil
	}
	if t == nil {
		t = s.limiter.Engine.transfers.begin(s.limiter.DependsOn)
	}
	go func() {
		err := redisx.ErrNoReply // until it returns
		defer func() { s.limiter.Engine.transfers.end(t, err) }()
		err = refund(Unattended(context.Background()), permits)
	}()
	return t
}

// revokeFor revokes all prefetches if their permits and those that are free in Redis are together
// enough for a request that neither could grant alone. The entry is locked.
func (s *prefetchSet) revokeFor(permits int64) []*transfer {
	left := s.unused(time.Now())
	if left == 0 || permits > s.free+left {
		return nil
	}
	return s.revoke()
}

// revoke refunds all prefetches. The entry is locked.
func (s *prefetchSet) revoke() (all []*transfer) {
	s.revokes++
	for i := range s.active {
		if t := s.returnUnused(&s.active[i], nil); t != nil {
			all = append(all, t)
		}
	}
	clear(s.active)
	s.active = s.active[:0]
	return all
}
