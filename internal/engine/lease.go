package engine

import (
	"slices"
	"time"
)

const (
	leastLease = 2 // permits of a lease; fewer save no call, since their release is a call too
	// maxLeases is the largest number of leases of a limiter: one that is nearly used up, the next
	// one, and two for requests that exceed both.
	maxLeases  = 4
	fetchTrips = 2 // the next lease is fetched this many round trips before a lease ends
)

// leaseSet holds the leases of a limiter and the demand, which decides how large the next lease is.
// Its entry guards it.
type leaseSet struct {
	limiter        *Limiter      // any of those of the entry
	span           time.Duration // for which permits are leased at most
	leases         []activeLease // the oldest first
	newest         activeLease   // that arrived, also once it is used up: decisions report its numbers
	free           int64         // permits that are free in Redis, by the last reply, less those granted since
	taken          int64         // permits that calls were granted since the newest lease
	beside         int64         // permits that other calls were granted while the call in flight asks for a lease
	demanded       int64         // permits requested since spanBegan
	demandedBefore int64         // permits requested in the span before that
	spanBegan      time.Time
	fetch          *transfer     // of the call in flight that asks for a lease, or nil
	roundTrip      time.Duration // how long the last one took
	revokes        uint64        // so far: a lease that was asked for before one is not used after it
	timer          *time.Timer
}

// activeLease is a lease that serves callers.
type activeLease struct {
	Lease
	unused int64
	sent   time.Time // when the call was sent: the lease began then at the earliest
}

// expired reports whether the lease has ended by either clock: the monotonic one may stand still
// while the machine sleeps.
func (s *activeLease) expired(now time.Time) bool { return s.remains(now) <= 0 }

func (s *activeLease) remains(now time.Time) time.Duration {
	return s.remainsAfter(now.Sub(s.sent), time.Duration(now.UnixNano()-s.sent.UnixNano()))
}

func (s *activeLease) remainsAfter(monotonic, wall time.Duration) time.Duration {
	return s.Lasts - max(monotonic, wall)
}

// take takes the permits of a request from a lease and sets the result. It reports whether it did, and
// whether it is time to fetch the next lease. The entry is locked.
func (h *leaseSet) take(ask Ask, result *Result) (ok, fetch bool) {
	now := time.Now()
	for i := range h.leases {
		s := &h.leases[i]
		remains := s.remains(now)
		if s.unused < ask.Most() || remains <= 0 || ask.Each && h.newest.Parts == nil {
			continue
		}
		h.grant(s, ask, result, now)
		h.countDemand(now, ask.Most())
		return true, i == len(h.leases)-1 && h.runsOut(s, now, remains)
	}
	return false, false
}

// grant grants a request from a lease and sets the result.
func (h *leaseSet) grant(s *activeLease, ask Ask, result *Result, now time.Time) {
	s.unused -= ask.Most()
	result.Answer = Answer{Allowed: true}
	result.Granted, result.From, result.Refund = ask.Most(), FromLease, s.Refund
	if ask.Detail {
		result.Limit = h.newest.Limit
		result.Remaining = min(result.Limit, max(0, h.free)+h.unused(now))
		result.ResetAfter = h.newest.Reset - now.Sub(h.newest.sent)
	}
	if ask.Each {
		result.Parts = h.parts(now)
	}
}

// addToAll is addTo for the requests of a call that was answered.
func (h *leaseSet) addToAll(b *Batch) {
	if h == nil {
		return
	}
	for _, r := range b.Requests {
		if r.Detail && r.Allowed {
			h.addTo(&r.Result, r.Ask)
		}
	}
}

// addTo adds the leased permits to a result of Redis, which does not know how many are unused. They
// are granted to a request with UpTo, and remain for others. Those of a lease that Redis may have granted after
// the result are still free in it, so they do not count twice. The entry is locked.
func (h *leaseSet) addTo(result *Result, ask Ask) {
	if ask.UpTo > 0 {
		h.grantUpTo(result, ask.Most())
	}
	left, now := int64(0), time.Now()
	for i := range h.leases {
		if s := &h.leases[i]; !s.expired(now) && (s.came.Before(result.sent) || s.sent.Equal(result.sent)) {
			left += s.unused
		}
	}
	result.Remaining = min(result.Remaining+left, max(result.Remaining, result.Limit))
	for i := range result.Parts {
		one := &result.Parts[i]
		one.Remaining = min(one.Remaining+left, max(one.Remaining, one.Limit))
	}
}

// grantUpTo grants permits of all leases, up to a total of most.
func (h *leaseSet) grantUpTo(result *Result, most int64) {
	now, before := time.Now(), result.Granted
	for i := range h.leases {
		s := &h.leases[i]
		if n := min(s.unused, most-result.Granted); n > 0 && !s.expired(now) {
			s.unused -= n
			result.Granted += n
		}
	}
	if result.Granted > before && !result.Allowed {
		result.Allowed, result.RetryAfter, result.From = true, 0, FromLease
	}
}

// parts returns the answer of each part, by the newest lease, for a request that was served.
func (h *leaseSet) parts(now time.Time) []Answer {
	parts, left := slices.Clone(h.newest.Parts), h.unused(now)
	for i := range parts {
		parts[i].Remaining = min(max(0, parts[i].Remaining-h.taken)+left, max(parts[i].Remaining, parts[i].Limit))
		parts[i].ResetAfter -= now.Sub(h.newest.sent)
	}
	return parts
}

// unused returns the permits that all leases have left.
func (h *leaseSet) unused(now time.Time) (left int64) {
	for i := range h.leases {
		if !h.leases[i].expired(now) {
			left += h.leases[i].unused
		}
	}
	return left
}

// countDemand counts the permits that callers ask for.
func (h *leaseSet) countDemand(now time.Time, permits int64) {
	span := h.span
	if since := now.Sub(h.spanBegan); since >= span {
		h.demandedBefore = h.demanded
		if since >= 2*span {
			h.demandedBefore = 0
		}
		h.demanded, h.spanBegan = 0, now
	}
	h.demanded = min(MaxPermits, h.demanded+permits)
}

// demand estimates how many permits callers asked for in the span before now.
func (h *leaseSet) demand(now time.Time) int64 {
	span := h.span
	since := now.Sub(h.spanBegan)
	if since >= 2*span {
		return 0
	}
	if since >= span {
		return int64(float64(h.demanded) * float64(2*span-since) / float64(span))
	}
	return h.demanded + int64(float64(h.demandedBefore)*float64(span-since)/float64(span))
}

// runsOut reports whether the newest lease will be used up, or expired, by the time that the next
// one can arrive.
func (h *leaseSet) runsOut(s *activeLease, now time.Time, remains time.Duration) bool {
	if h.fetch != nil {
		return false
	}
	ahead := fetchTrips * h.roundTrip
	if remains <= ahead {
		return true
	}
	left := float64(s.unused) * float64(h.span)
	if left > float64(h.demanded+h.demandedBefore)*float64(ahead) {
		return false // an upper bound of the demand, which is cheaper
	}
	return left <= float64(h.demand(now))*float64(ahead)
}

// plan sets the lease that a batch asks for besides the permits of its requests. It drops leases that are used
// up. The entry is locked.
func (h *leaseSet) plan(b *Batch) {
	b.Lease = Lease{}
	if h == nil || h.fetch != nil || h.limiter.Engine.changes.any(h.limiter.DependsOn) {
		return
	}
	if h.leases = slices.DeleteFunc(h.leases,
		func(s activeLease) bool { return s.unused == 0 }); len(h.leases) >= maxLeases {
		return
	}
	permits := h.demand(time.Now())
	for _, r := range b.Requests {
		permits -= r.Most()
	}
	if permits < leastLease {
		return
	}
	b.Lease.Permits, b.Lease.Span, b.sent.revokes = permits, h.span, h.revokes
	h.fetch, h.beside = h.beginTransfer(), 0
}

// store counts the permits of a call, and stores its lease if it asked for one. It returns the release of a
// lease that must not be used, to be run once the entry is unlocked.
func (h *leaseSet) store(b *Batch) (discarded release) {
	if h == nil {
		return nil
	}
	h.taken += b.Granted
	switch {
	case b.err != nil || b.Forecast == nil:
		h.free -= b.Granted
	case b.sent.at.After(h.newest.came):
		h.free = b.Forecast.Free()
	default: // Redis may have computed it before the newest lease
		h.free = min(h.free, b.Forecast.Free())
	}
	for _, r := range b.Requests {
		r.sent = b.sent.at
	}
	if b.Lease.Span == 0 {
		h.beside += b.Granted
		return nil
	}
	fetch := h.fetch
	h.fetch = nil
	if discarded = h.add(b, fetch); discarded == nil {
		h.endTransfer(fetch, b.err)
	}
	return discarded
}

// add adds the lease of a call that asked for one.
func (h *leaseSet) add(b *Batch, fetch *transfer) (discarded release) {
	if b.err != nil {
		return nil
	}
	now := time.Now()
	h.roundTrip = now.Sub(b.sent.at)
	if b.Lease.Granted == 0 {
		return nil
	}
	// The permits of callers that have left belong to the same grant.
	s := activeLease{Lease: b.Lease, unused: b.Lease.Granted + b.LostPermits, sent: b.sent.at}
	s.came = now
	clear(b.Lost)
	b.Lost = b.Lost[:0]
	if h.revokes != b.sent.revokes || s.expired(now) {
		return h.release(&s, fetch)
	}
	// Redis may have granted those of calls beside it after the lease.
	h.leases, h.newest, h.free, h.taken = append(h.leases, s), s, s.Free-h.beside, h.beside
	h.timer.Reset(h.next(now))
	return nil
}

// next returns the time until a lease expires.
func (h *leaseSet) next(now time.Time) time.Duration {
	next := h.span
	for i := range h.leases {
		next = min(next, h.leases[i].remains(now))
	}
	return max(next, 0)
}
