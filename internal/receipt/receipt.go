// Package receipt names the permits of a grant, so that a refund returns these and no others.
//
// Permits have no identity in Redis. A refund by number would free permits that others have taken:
// when the window of a grant is over, its permits have returned already. So a refund names the
// grant, and changes nothing if the grant no longer takes permits.
package receipt

import (
	"context"
	"sync"
)

// Receipt is the permits that one request took. The zero Receipt has none.
type Receipt struct {
	Permits int64

	// Refund returns some of the permits, once. It changes nothing after the window of the grant, or
	// after a reset of the limiter. The permits of a lease are refunded to Redis; the lease stays as
	// it is.
	Refund Refund

	// Return returns permits of policies that hold them until they are returned, whatever the final cost
	// is, and only of these; nil without such a policy.
	Return Refund

	// Local settles permits that Redis did not grant: it charges more of them, or with a number below 0
	// refunds some.
	Local func(more int64)
}

// Refund returns permits of one grant.
type Refund func(ctx context.Context, permits int64) error

// Slot is a context whose requests for permits leave a Receipt. It is for Take, TakeEach, TryAcquire,
// TryAcquireWithin and Acquire of both kinds of limiters.
//
// A limiter of a user's own type may wrap one of these. It passes the context on, so the receipt
// does not depend on its methods.
type Slot struct {
	context.Context

	mu         sync.Mutex
	receipts   int
	last       Receipt
	fromMemory bool
}

type slotKey struct{}

// Collect returns a new Slot.
func Collect(ctx context.Context) *Slot { return &Slot{Context: ctx} }

// SlotOf returns the innermost Slot of a context, nil for none.
func SlotOf(ctx context.Context) *Slot {
	s, _ := ctx.Value(slotKey{}).(*Slot)
	return s
}

// Value returns the slot itself for its key.
func (s *Slot) Value(key any) any {
	if key == (slotKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// Put leaves a receipt. A nil Slot and a Receipt that settles nothing are ignored.
func (s *Slot) Put(r Receipt) {
	if s == nil || r.Refund == nil && r.Local == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receipts++
	s.last = r
}

// SetFromMemory records that the request was decided without a call to Redis: by a lease or by the
// denial cache. A nil Slot ignores it.
func (s *Slot) SetFromMemory() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fromMemory = true
}

// FromMemory reports whether the request was decided without a call to Redis.
func (s *Slot) FromMemory() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fromMemory
}

// Of returns the receipt of a request for so many permits. It is the zero Receipt if the limiter has
// taken them in another way, as one that takes from two limiters does.
func (s *Slot) Of(permits int64) Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receipts != 1 || s.last.Permits != permits {
		return Receipt{}
	}
	return s.last
}
