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

// prefetchSet holds the prefetches of a limiter and the demand, which decides how large the next prefetch is.
// Its entry guards it.
type prefetchSet struct {
	limiter        *Limiter
	active         []activePrefetch // the oldest first
	newest         activePrefetch   // that arrived, also once it is used up: decisions report its numbers
	free           int64            // permits that are free in Redis, less those granted since: the least of replies
	replies        []freeReply      // of which Redis may have computed any one last, in the order of arrival
	taken          int64            // permits that calls were granted since the newest prefetch
	beside         int64            // permits that other calls were granted while the call in flight asks for a prefetch
	demanded       int64            // permits requested since spanBegan
	demandedBefore int64            // permits requested in the span before that
	spanBegan      time.Time
	fetch          *transfer     // of the call in flight that asks for a prefetch, or nil
	roundTrip      time.Duration // how long the last one took
	revokes        uint64        // so far: a prefetch that was asked for before one is not used after it
	timer          *time.Timer
}

// span returns for how long permits are prefetched at most.
func (h *prefetchSet) span() time.Duration { return h.limiter.Engine.prefetch }

func (h *prefetchSet) transfers() *transfers { return &h.limiter.Engine.transfers }

// activePrefetch is a prefetch that serves callers.
type activePrefetch struct {
	Prefetch
	unused int64
	sent   time.Time // when the call was sent: the prefetch began then at the earliest
}

func (s *activePrefetch) remains(now time.Time) time.Duration { return s.Lasts - elapsed(s.sent, now) }

func (s *activePrefetch) expired(now time.Time) bool { return s.remains(now) <= 0 }

// countDemand counts permits that callers ask for, for the next prefetch. The entry is locked.
func (l *Limiter) countDemand(e *entry, permits int64) {
	now := time.Now()
	if e.prefetches == nil {
		h := &prefetchSet{limiter: l, spanBegan: now}
		h.timer = time.AfterFunc(l.Engine.prefetch, func() { l.expire(e, h) })
		e.prefetches = h
		l.Engine.registry.index.add(e, l.DependsOn)
	}
	e.prefetches.countDemand(now, permits)
}

// expire refunds the unused permits of expired prefetches. Without demand it removes the prefetch set.
func (l *Limiter) expire(e *entry, h *prefetchSet) {
	e.mu.Lock()
	if e.prefetches != h {
		e.mu.Unlock()
		return
	}
	now := time.Now()
	h.active = slices.DeleteFunc(h.active, func(s activePrefetch) bool {
		over := s.unused == 0 || s.expired(now)
		if over {
			h.returnUnused(&s, nil)
		}
		return over
	})
	if len(h.active) > 0 || h.fetch != nil || h.demand(now) > 0 {
		h.timer.Reset(h.next(now))
	} else {
		e.prefetches = nil
	}
	l.Engine.registry.unlockEntry(e)
}

// take takes the permits of a request from a prefetch and sets the result. It reports whether it did, and
// whether it is time to fetch the next prefetch. The entry is locked.
func (h *prefetchSet) take(ask Ask, result *Result) (ok, fetch bool) {
	now := time.Now()
	for i := range h.active {
		s := &h.active[i]
		remains := s.remains(now)
		if s.unused < ask.Most() || remains <= 0 || ask.Each && h.newest.Parts == nil {
			continue
		}
		h.grant(s, ask, result, now)
		h.countDemand(now, ask.Most())
		return true, i == len(h.active)-1 && h.runsOut(s, now, remains)
	}
	return false, false
}

// grant grants a request from a prefetch and sets the result.
func (h *prefetchSet) grant(s *activePrefetch, ask Ask, result *Result, now time.Time) {
	s.unused -= ask.Most()
	result.Decision = Decision{Allowed: true}
	result.Granted, result.From, result.Refund = ask.Most(), FromPrefetch, s.Refund
	if ask.Detail {
		result.Limit = h.newest.Limit
		result.Remaining = min(result.Limit, max(0, h.free)+h.unused(now))
		result.ResetAfter = max(0, h.newest.Reset-now.Sub(h.newest.sent))
	}
	if ask.Each {
		result.Parts = h.parts(now)
	}
}

// serve serves waiters, in order, and returns those to wake. The entry is locked.
func (h *prefetchSet) serve(q *queue) (done []*waiter) {
	now := time.Now()
	for i := range h.active {
		s := &h.active[i]
		for w := q.waiters.first; w != nil && w.Permits <= s.unused && !s.expired(now) &&
			len(done) < MaxRequests; w = q.waiters.first {
			h.grant(s, w.Ask, &w.Result, now)
			w.finish(nil)
			q.remove(w)
			done = append(done, w)
		}
	}
	return done
}

// addToAll is addTo for the requests of a call that was answered.
func (h *prefetchSet) addToAll(b *Batch) {
	for _, r := range b.Requests {
		if r.Detail && r.Allowed {
			h.addTo(&r.Result, r.Ask)
		}
	}
}

// addTo adds the prefetched permits to a result of Redis, which does not know how many are unused. They
// are granted to a request with UpTo, and remain for others. Those of a prefetch that Redis may have granted after
// the result are still free in it, so they do not count twice. The entry is locked.
func (h *prefetchSet) addTo(result *Result, ask Ask) {
	if ask.UpTo > 0 {
		h.grantUpTo(result, ask.Most())
	}
	left, now := int64(0), time.Now()
	for i := range h.active {
		if s := &h.active[i]; !s.expired(now) && s.number <= result.deducted {
			left += s.unused
		}
	}
	result.Remaining = min(result.Remaining+left, max(result.Remaining, result.Limit))
	for i := range result.Parts {
		one := &result.Parts[i]
		one.Remaining = min(one.Remaining+left, max(one.Remaining, one.Limit))
	}
}

// grantUpTo grants permits of all prefetches, up to a total of most.
func (h *prefetchSet) grantUpTo(result *Result, most int64) {
	now, before := time.Now(), result.Granted
	for i := range h.active {
		s := &h.active[i]
		if n := min(s.unused, most-result.Granted); n > 0 && !s.expired(now) {
			s.unused -= n
			result.Granted += n
		}
	}
	if result.Granted > before && !result.Allowed {
		result.Allowed, result.RetryAfter, result.From = true, 0, FromPrefetch
	}
}

// parts returns the answer of each part, by the newest prefetch, for a request that was served.
func (h *prefetchSet) parts(now time.Time) []Decision {
	parts, left := slices.Clone(h.newest.Parts), h.unused(now)
	for i := range parts {
		parts[i].Remaining = min(max(0, parts[i].Remaining-h.taken)+left, max(parts[i].Remaining, parts[i].Limit))
		parts[i].ResetAfter = max(0, parts[i].ResetAfter-now.Sub(h.newest.sent))
	}
	return parts
}

// unused returns the permits that all prefetches have left.
func (h *prefetchSet) unused(now time.Time) (left int64) {
	for i := range h.active {
		if !h.active[i].expired(now) {
			left += h.active[i].unused
		}
	}
	return left
}

// countDemand counts the permits that callers ask for.
func (h *prefetchSet) countDemand(now time.Time, permits int64) {
	if since, span := now.Sub(h.spanBegan), h.span(); since >= span {
		h.demandedBefore = h.demanded
		if since >= 2*span {
			h.demandedBefore = 0
		}
		h.demanded, h.spanBegan = 0, now
	}
	h.demanded = min(MaxPermits, h.demanded+permits)
}

// demand estimates how many permits callers asked for in the span before now.
func (h *prefetchSet) demand(now time.Time) int64 {
	before, latest, since, span := h.demandedBefore, h.demanded, now.Sub(h.spanBegan), h.span()
	if since >= span {
		before, latest, since = latest, 0, since-span
	}
	return latest + int64(float64(before)*float64(max(0, span-since))/float64(span))
}

// runsOut reports whether the newest prefetch will be used up, or expired, by the time that the next
// one can arrive.
func (h *prefetchSet) runsOut(s *activePrefetch, now time.Time, remains time.Duration) bool {
	if h.fetch != nil {
		return false
	}
	ahead := fetchTrips * h.roundTrip
	if remains <= ahead {
		return true
	}
	return float64(s.unused)*float64(h.span()) <= float64(h.demand(now))*float64(ahead)
}

// plan sets the prefetch that a batch asks for besides the permits of its requests. It drops prefetches that are used
// up. The entry is locked.
func (h *prefetchSet) plan(b *Batch) {
	if h.fetch != nil || h.limiter.Engine.changes.areInFlight(h.limiter.DependsOn) {
		return
	}
	if h.active = slices.DeleteFunc(h.active,
		func(s activePrefetch) bool { return s.unused == 0 }); len(h.active) >= maxPrefetches {
		return
	}
	permits := h.demand(time.Now())
	for _, r := range b.Requests {
		permits -= r.Most()
	}
	if permits < leastPrefetch {
		return
	}
	b.Prefetch.Permits, b.Prefetch.Span, b.revokes = permits, h.span(), h.revokes
	h.fetch, h.beside = h.transfers().begin(h.limiter.DependsOn), 0
}

// store counts the permits of a call, and stores its prefetch if it asked for one, or refunds it if it must not be
// used.
func (h *prefetchSet) store(b *Batch) {
	h.taken += b.Granted
	h.storeFree(b)
	if b.Prefetch.Span == 0 {
		h.beside += b.Granted
	} else {
		fetch := h.fetch
		if h.fetch = nil; !h.add(b, fetch) {
			h.transfers().end(fetch, b.err)
		}
	}
	deducted := uint64(0)
	for i := range h.active {
		s := &h.active[i]
		if own := b.Prefetch.Span > 0 && s.sent.Equal(b.Sent); own || !s.came.After(b.Sent) {
			deducted = s.number
		}
	}
	for _, r := range b.Requests {
		r.deducted = deducted
	}
}

// freeReply is the number of permits that are free in Redis, as a reply reported it.
type freeReply struct {
	free int64
	came time.Time
}

// storeFree stores the permits that are free in Redis after a call. Redis computed its reply after those that came
// before it was sent. The others may be newer. A reply without the number, or an error, makes none of them newer.
func (h *prefetchSet) storeFree(b *Batch) {
	var free int64
	switch {
	case b.err == nil && b.Prefetch.Granted > 0:
		free = b.Prefetch.Free - h.beside // calls beside the prefetch may have been granted theirs after it
	case b.err == nil && b.Forecast != nil:
		free = b.Forecast.Free()
	default:
		h.free -= b.Granted
		for i := range h.replies {
			h.replies[i].free -= b.Granted
		}
		return
	}
	h.replies = slices.DeleteFunc(h.replies, func(r freeReply) bool { return !r.came.After(b.Sent) })
	h.replies = append(h.replies, freeReply{free, time.Now()})
	h.free = free
	for _, r := range h.replies {
		h.free = min(h.free, r.free)
	}
}

// add adds the prefetch of a call that asked for one. It reports whether it refunds the prefetch.
func (h *prefetchSet) add(b *Batch, fetch *transfer) (refunded bool) {
	if b.err != nil {
		return false
	}
	now := time.Now()
	h.roundTrip = now.Sub(b.Sent)
	if b.Prefetch.Granted == 0 {
		return false
	}
	// The permits of callers that have left belong to the same grant.
	s := activePrefetch{Prefetch: b.Prefetch, unused: b.Prefetch.Granted + b.LostPermits, sent: b.Sent}
	s.came, s.number = now, h.newest.number+1
	clear(b.Lost)
	b.Lost = b.Lost[:0]
	if h.revokes != b.revokes || s.expired(now) {
		h.returnUnused(&s, fetch)
		return true
	}
	h.active, h.newest, h.taken = append(h.active, s), s, h.beside
	h.timer.Reset(h.next(now))
	return false
}

// next returns the time until a prefetch expires.
func (h *prefetchSet) next(now time.Time) time.Duration {
	next := h.span()
	for i := range h.active {
		next = min(next, h.active[i].remains(now))
	}
	return max(next, 0)
}

// longTransfer is how long others wait for a prefetch in transit: about as long as a call whose slot
// moves. A refund goes on after that. If only the link is slow, a call that is sent then is
// behind it on the connection.
const longTransfer = 250 * time.Millisecond

// await waits for transfers until ctx is done, but at most longTransfer. They go on.
func await(ctx context.Context, all []*transfer) {
	ctx, cancel := context.WithTimeout(ctx, longTransfer)
	defer cancel()
	for _, t := range all {
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		}
	}
}

// returnUnused returns the unused permits of a prefetch to Redis, on a goroutine of its own. If that fails, they expire.
// It ends the transfer that has fetched the prefetch, or a new one if that is nil. It returns nil if no permit is
// unused.
func (h *prefetchSet) returnUnused(s *activePrefetch, t *transfer) *transfer {
	permits, refund := s.unused, s.Refund
	if s.unused = 0; permits == 0 {
		return nil
	}
	if t == nil {
		t = h.transfers().begin(h.limiter.DependsOn)
	}
	go func() {
		err := redisx.ErrNoReply // until it returns
		defer func() { h.transfers().end(t, err) }()
		err = refund(Unattended(context.Background()), permits)
	}()
	return t
}

// revokeFor revokes all prefetches if their permits and those that are free in Redis are together
// enough for a request that neither could grant alone. The entry is locked.
func (h *prefetchSet) revokeFor(permits int64) []*transfer {
	left := h.unused(time.Now())
	if left == 0 || permits > h.free+left {
		return nil
	}
	return h.revoke()
}

// revoke refunds all prefetches. The entry is locked.
func (h *prefetchSet) revoke() (all []*transfer) {
	h.revokes++
	for i := range h.active {
		if t := h.returnUnused(&h.active[i], nil); t != nil {
			all = append(all, t)
		}
	}
	clear(h.active)
	h.active = h.active[:0]
	return all
}
