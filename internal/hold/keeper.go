package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Keeper returns and renews the places of a Client. It has no goroutine, timer or other state while it has no
// place that is renewed, returning or counted, and for a minute after ReturnUnknown. The zero Keeper is ready.
type Keeper struct {
	// Changed, if it is not nil, gets each change of the number of places that are held. It is 1 with Keep, and -1
	// when a place is over or its lease has ended. It is set before the first place.
	Changed func(limiter string, change int)

	mu   sync.Mutex
	sets map[setID]*set
}

// setID names the places with one key and lease, which share calls.
type setID struct {
	key   string
	lease time.Duration
}

// set is the places with one ID that are renewed or returning. The lock of the Keeper guards it.
type set struct {
	keeper *Keeper
	id     setID
	calls  Calls

	renewed map[*place]struct{}
	round   *time.Timer // of the next renewals; nil without renewed places that are in no call
	planned time.Time   // when that is

	returning map[*place]struct{}
	due       []*place    // of these, those in no call
	inFlight  int         // calls that return places
	retry     *time.Timer // after a call that failed; nil while none has
	pause     time.Duration
}

const (
	// mostCalls is how many calls of a key return places at once. Others are returned together after these.
	mostCalls = 8

	// A call that fails is repeated after a pause. One that is not answered is repeated after callFor.
	shortestPause = 20 * time.Millisecond
	longestPause  = time.Second
	callFor       = 2 * time.Second

	// The pauses of ReturnUnknown double, to together a minute. So a place that is granted late returns within as long
	// again.
	firstAgain = time.Second
	lastAgain  = 32 * time.Second

	// flushFor is how long Flush waits for Redis to answer.
	flushFor = 5 * time.Second
)

func (k *Keeper) setLocked(p *place) *set {
	id := setID{p.terms.Key, p.terms.Lease}
	s := k.sets[id]
	if s == nil {
		s = &set{keeper: k, id: id, calls: p.terms.Calls}
		if k.sets == nil {
			k.sets = make(map[setID]*set)
		}
		k.sets[id] = s
	}
	return s
}

// removeIfIdleLocked forgets a set without places.
func (s *set) removeIfIdleLocked() {
	if len(s.renewed) == 0 && len(s.returning) == 0 && s.keeper.sets[s.id] == s {
		delete(s.keeper.sets, s.id)
	}
}

// returnLocked begins to return a place, unless that was begun before.
func (k *Keeper) returnLocked(p *place) {
	if p.state >= returning {
		return
	}
	s := k.setLocked(p)
	if delete(s.renewed, p); len(s.renewed) == 0 && s.round != nil {
		s.round.Stop()
		s.round = nil
	}
	p.state = returning
	if s.returning == nil {
		s.returning = make(map[*place]struct{})
	}
	s.returning[p] = struct{}{}
	s.due = append(s.due, p)
	s.sendLocked()
}

// sendLocked sends calls for the places that are due.
func (s *set) sendLocked() {
	for s.retry == nil && s.inFlight < mostCalls && len(s.due) > 0 {
		n := min(len(s.due), MostPlaces)
		batch := s.due[:n:n]
		if s.due = s.due[n:]; len(s.due) == 0 {
			s.due = nil
		}
		s.inFlight++
		go s.send(batch)
	}
}

// send returns places with one call. If it fails, they are due again after a pause.
func (s *set) send(batch []*place) {
	err := redisx.ErrNoReply // unless the call returns: the clock of the program may panic
	defer func() {
		s.keeper.mu.Lock()
		defer s.keeper.mu.Unlock()
		s.inFlight--
		s.sentLocked(batch, err)
		s.sendLocked()
		s.removeIfIdleLocked()
	}()
	ctx, stop := context.WithTimeout(redisx.RetryUntilEnd(context.Background()), callFor)
	defer stop()
	err = s.calls.Return(ctx, membersOf(batch))
}

// sentLocked ends the places of a call, or makes them due again.
func (s *set) sentLocked(batch []*place, err error) {
	if err == nil {
		s.pause = 0
		for _, p := range batch {
			s.endLocked(p, nil)
			s.keeper.returnAgain(p)
		}
		return
	}
	for _, p := range batch {
		p.err = err
	}
	s.due = append(batch, s.due...)
	if s.dropEndedLocked(errors.Is(err, rueidis.ErrClosing)); len(s.due) > 0 && s.retry == nil {
		s.pause = min(max(2*s.pause, shortestPause), longestPause)
		s.retry = time.AfterFunc(s.pause, s.again)
	}
}

// returnAgain returns a place once more after a pause, if its grant may still arrive. Nothing waits for that.
func (k *Keeper) returnAgain(p *place) {
	if p.again == 0 || p.again > lastAgain || !time.Now().Add(p.again).Before(p.end) {
		return
	}
	next := newPlace(p.hold, p.terms, p.member, p.end)
	next.again = 2 * p.again
	time.AfterFunc(p.again, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.returnLocked(next)
	})
}

// again sends the calls that have failed.
func (s *set) again() {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	s.retry = nil
	s.dropEndedLocked(false)
	s.sendLocked()
	s.removeIfIdleLocked()
}

// dropEndedLocked ends the places that are due and whose lease has ended, or all.
func (s *set) dropEndedLocked(all bool) {
	now := time.Now()
	s.due = slices.DeleteFunc(s.due, func(p *place) bool {
		ended := all || !p.end.After(now)
		if ended {
			s.endLocked(p, p.lostError())
		}
		return ended
	})
}

// endLocked ends a place that was returning, or with an error is lost.
func (s *set) endLocked(p *place, err error) {
	delete(s.returning, p)
	p.state, p.err = over, err
	p.uncountLocked()
	close(p.done)
	p.hold.loseLocked(err)
}

// countLocked counts a place as held, until uncountLocked. The lease of one that is not renewed may end without a
// call.
func (k *Keeper) countLocked(p *place) {
	p.counted = true
	if !p.terms.Renew {
		p.lapse = time.AfterFunc(time.Until(p.end), func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			p.uncountLocked()
		})
	}
}

// uncountLocked ends the count of a place.
func (p *place) uncountLocked() {
	if !p.counted {
		return
	}
	p.counted = false
	if p.lapse != nil {
		p.lapse.Stop()
	}
	go p.hold.keeper.Changed(p.terms.Limiter, -1) // without the lock
}

// loseLocked calls lost, unless err is nil.
func (h *Hold) loseLocked(err error) {
	if lost := h.lost; lost != nil && err != nil {
		h.lost = nil
		go lost(err)
	}
}

// wait waits until a place is over.
func (k *Keeper) wait(ctx context.Context, p *place) error {
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.state != over {
		return fmt.Errorf("limiter %q: a place is not returned yet: %w", p.terms.Limiter, cmp.Or(p.err, ctx.Err()))
	}
	return p.err
}

// Flush waits until the places are over that are returning, for at most flushFor.
func (k *Keeper) Flush(ctx context.Context) error {
	var all []*place
	k.mu.Lock()
	for _, s := range k.sets {
		for p := range s.returning {
			all = append(all, p)
		}
	}
	k.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, flushFor)
	defer stop()
	for _, p := range all {
		if err := k.wait(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func membersOf(places []*place) []string {
	members := make([]string, len(places))
	for i, p := range places {
		members[i] = p.member
	}
	return members
}
