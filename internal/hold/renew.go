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
	if s.round == nil {
		due := p.end.Add(s.id.lease/renewals - s.id.lease)
		s.round = time.AfterFunc(max(0, time.Until(due)), s.renew)
	}
}

// renew renews the leases of the places of a set, and plans the next time. The calls of one node, which may hang, delay
// those of no other: each set has a timer of its own.
func (s *set) renew() {
	begun := time.Now()
	s.keeper.mu.Lock()
	own := s.round
	places := make([]*place, 0, len(s.renewed))
	earliest := begun.Add(s.id.lease / renewals)
	for p := range s.renewed {
		places = append(places, p)
		if p.end.Before(earliest) {
			earliest = p.end
		}
	}
	s.keeper.mu.Unlock()

	err := redisx.ErrNoReply // unless the calls return
	defer func() { s.renewedAll(own, begun, err) }()
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

// renewedAll ends the places that could not be renewed in time, and plans the next calls.
func (s *set) renewedAll(own *time.Timer, begun time.Time, err error) {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	now := time.Now()
	next := begun.Add(s.id.lease / renewals)
	if err != nil {
		next = now.Add(min(s.id.lease/repeats, longestPause))
	}
	for p := range s.renewed {
		if !p.end.After(now) {
			delete(s.renewed, p)
			s.removeLostLocked(p)
		} else if p.end.Before(next) {
			next = p.end
		}
	}
	switch {
	case s.round != own: // all were returned, and others renewed since
	case len(s.renewed) > 0:
		own.Reset(max(0, time.Until(next)))
	default:
		s.round = nil
	}
	s.removeIfIdleLocked()
}

// removeLostLocked ends a place whose lease has ended by the clock of this process. A call that hangs may still renew
// it, so it is removed.
func (s *set) removeLostLocked(p *place) {
	s.endLocked(p, p.lostError())
	gone := &place{hold: new(Hold), terms: p.terms, member: p.member, end: time.Now().Add(s.id.lease)}
	s.keeper.returnLocked(gone)
}
