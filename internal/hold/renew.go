package hold

import (
	"context"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Leases are renewed each third of their length. A call that failed is repeated a tenth of a lease later, and within
// a second.
const (
	renewals = 3
	repeats  = 10
)

// renewLocked begins to renew a place.
func (k *Keeper) renewLocked(p *place) {
	s := k.setLocked(p)
	if s.renewed == nil {
		s.renewed = make(map[*place]struct{})
	}
	p.state = renewed
	s.renewed[p] = struct{}{}
	s.planLocked(p.end.Add(s.id.lease/renewals - s.id.lease))
}

// planLocked plans renewals for a time, unless they are planned for an earlier one.
func (s *set) planLocked(due time.Time) {
	if s.round != nil {
		if !due.Before(s.planned) {
			return
		}
		s.round.Stop()
	}
	s.planned, s.round = due, time.AfterFunc(max(0, time.Until(due)), s.renew)
}

// renew renews the leases of the places of a set that are in no other call, and plans the next time. A call that hangs
// delays only its own places: each set has a timer of its own, and a place that is granted meanwhile another call.
func (s *set) renew() {
	s.keeper.mu.Lock()
	begun := time.Now()
	if s.round == nil || begun.Before(s.planned) { // the timer was stopped too late
		s.keeper.mu.Unlock()
		return
	}
	s.round = nil
	places := make([]*place, 0, len(s.renewed))
	earliest := begun.Add(s.id.lease / renewals)
	for p := range s.renewed {
		if p.renewing {
			continue
		}
		p.renewing = true
		places = append(places, p)
		if p.end.Before(earliest) {
			earliest = p.end
		}
	}
	s.keeper.mu.Unlock()

	err := redisx.ErrNoReply // unless the calls return
	defer func() { s.renewedAll(places, begun, err) }()
	ctx, stop := context.WithDeadline(redisx.RetryUntilEnd(context.Background()), earliest)
	defer stop()
	err = nil
	for part := range slices.Chunk(places, MostPlaces) {
		if err = s.renewPart(ctx, part); err != nil {
			break
		}
	}
}

// renewPart renews the leases of places with one call.
func (s *set) renewPart(ctx context.Context, part []*place) error {
	sent := time.Now()
	ended, err := s.calls.Renew(ctx, membersOf(part))
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	for i, p := range part {
		switch {
		case p.state != renewed: // it was returned meanwhile
		case err != nil:
			p.err = err
		case slices.Contains(ended, i):
			p.err = nil
			delete(s.renewed, p)
			s.endLocked(p, p.lostError())
		default:
			p.err, p.end = nil, sent.Add(s.id.lease)
		}
	}
	return err
}

// renewedAll ends the places of a call that could not be renewed in time, and plans the next call for the others.
func (s *set) renewedAll(places []*place, begun time.Time, err error) {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	now := time.Now()
	next, left := begun.Add(s.id.lease/renewals), false
	if err != nil {
		next = now.Add(min(s.id.lease/repeats, longestPause))
	}
	for _, p := range places {
		p.renewing = false
		switch {
		case p.state != renewed: // it was returned or lost meanwhile
		case !p.end.After(now):
			delete(s.renewed, p)
			s.removeLostLocked(p)
		default:
			left = true
			if p.end.Before(next) {
				next = p.end
			}
		}
	}
	if left {
		s.planLocked(next)
	}
	s.removeIfIdleLocked()
}

// removeLostLocked ends a place whose lease has ended by the clock of this process. A call that hangs may still renew
// it, so it is removed.
func (s *set) removeLostLocked(p *place) {
	s.endLocked(p, p.lostError())
	s.keeper.returnLocked(newPlace(new(Hold), p.terms, p.member, time.Now().Add(s.id.lease)))
}
