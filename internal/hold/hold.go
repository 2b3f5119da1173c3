// Package hold has the places that a Client holds of limits of calls in flight: it returns and renews them.
//
// A request that was granted has a [Hold], of a place in each key of its limiter. A place has one state:
//
//	held      its lease ends at a time, and it counts until then
//	renewed   as held; the Keeper prolongs its lease every third of it
//	returning the Keeper removes it from its key, and repeats that until Redis has answered
//	over      it was returned, or its lease has ended before: then it is lost
//
// A place is a member of its key that only this request has, so to remove it twice changes nothing of others.
// A Keeper knows the places that are renewed and returning. For those that are held, the caller alone has the Hold.
package hold

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLost is the error of places whose lease has ended before they were returned: they count no longer.
var ErrLost = errors.New("the lease of a place has ended before it was returned")

// Terms are the terms of the places of a key.
type Terms struct {
	Limiter string // its name, in errors
	Key     string
	Lease   time.Duration
	Renew   bool // the lease is renewed until the place is returned
	Calls   Calls
}

// Calls are the calls of Redis for the places of a key. Each has at most MostPlaces members.
type Calls interface {
	// Return removes members. Those that are not there are no error.
	Return(ctx context.Context, members []string) error

	// Renew prolongs the leases of members. It returns the indexes of those whose lease has ended, or that were
	// removed: they are as before.
	Renew(ctx context.Context, members []string) (ended []int, err error)
}

// MostPlaces is the largest number of members in one call.
const MostPlaces = 1000

// Hold is what one request holds. A nil Hold holds nothing. It is safe for concurrent use.
type Hold struct {
	Full bool // the grant has left no place free

	keeper *Keeper
	places []*place
	local  func()      // returns permits that Redis has not granted
	lost   func(error) // called once if a place is lost; nil afterwards
}

// place is one member of a key. The lock of its Keeper guards it.
type place struct {
	hold   *Hold
	terms  Terms
	member string
	state  state
	end    time.Time     // when its lease ends, or a little earlier
	again  time.Duration // the pause before it is returned once more, see ReturnUnknown; 0 for never
	err    error         // of the last call that failed
	done   chan struct{} // closed when it is over

	renewing bool // in a call that renews it

	counted bool        // by Changed of the Keeper
	lapse   *time.Timer // ends the count at the end of a lease that is not renewed
}

type state int

const (
	held state = iota
	renewed
	returning
	over
)

// Local returns the Hold of permits that Redis has not granted.
func Local(giveBack func()) *Hold { return &Hold{local: giveBack} }

// New returns a Hold without places.
func (k *Keeper) New() *Hold { return &Hold{keeper: k} }

// Add adds a place whose grant was sent at a time.
func (h *Hold) Add(terms Terms, member string, sent time.Time) {
	h.places = append(h.places, newPlace(h, terms, member, sent.Add(terms.Lease)))
}

func newPlace(h *Hold, terms Terms, member string, end time.Time) *place {
	return &place{hold: h, terms: terms, member: member, end: end, done: make(chan struct{})}
}

// Start begins to renew the places whose terms want that. If a place is lost, lost is called once, on a goroutine of
// its own, with an error that is [ErrLost]. A place that is not renewed is lost if it is being returned when its
// lease ends. lost may be nil.
func (h *Hold) Start(lost func(error)) {
	if h == nil || h.keeper == nil {
		return
	}
	for _, p := range h.keep(lost) {
		h.keeper.Changed(p.terms.Limiter, 1)
	}
}

// keep is Keep. It returns the places that begin to count.
func (h *Hold) keep(lost func(error)) (counted []*place) {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	h.lost = lost
	for _, p := range h.places {
		if p.state != held {
			continue
		}
		if p.terms.Renew {
			h.keeper.renewLocked(p)
		}
		if h.keeper.Changed != nil && !p.counted {
			h.keeper.countLocked(p)
			counted = append(counted, p)
		}
	}
	return counted
}

// Return begins to return the places. The Keeper repeats the calls until Redis has answered, or the lease has
// ended. It does nothing if it was called before.
func (h *Hold) Return() {
	switch {
	case h == nil:
	case h.local != nil:
		h.local()
	default:
		h.keeper.mu.Lock()
		defer h.keeper.mu.Unlock()
		for _, p := range h.places {
			h.keeper.returnLocked(p)
		}
	}
}

// ReturnUnknown is Return for places that Redis may not have granted yet. A server that hangs, or the network, may hold
// their call back, so that it runs after a return by another connection. So the Keeper returns them once more after
// each pause from firstAgain to lastAgain, while their lease lasts.
func (h *Hold) ReturnUnknown() {
	if h != nil {
		for _, p := range h.places {
			p.again = firstAgain
		}
	}
	h.Return()
}

// Wait waits until the places are over, after Return. It returns an error if ctx ends first, or if one was
// lost.
func (h *Hold) Wait(ctx context.Context) error {
	if h == nil || h.keeper == nil {
		return nil
	}
	for _, p := range h.places {
		if err := h.keeper.wait(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) lostError() error {
	err := fmt.Errorf("limiter %q: %w", p.terms.Limiter, ErrLost)
	if p.err != nil {
		err = fmt.Errorf("%w: %w", err, p.err)
	}
	return err
}
