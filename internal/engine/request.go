package engine

import (
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// Ask is a caller's request for permits.
type Ask struct {
	Permits int64 // the fewest that are granted
	UpTo    int64 // if it is above Permits, the most: as many as are free
	Detail  bool  // all fields of Answer, not only Allowed
	Each    bool  // Result.Parts too
	Receipt bool  // Result.Refund too
}

// Most returns the largest number of permits that can be granted.
func (a Ask) Most() int64 { return max(a.Permits, a.UpTo) }

// Answer is the decision on a request.
type Answer struct {
	Allowed    bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// Result is the answer to an Ask.
type Result struct {
	Answer
	Granted int64    // permits
	Parts   []Answer // of each part of the limiter, for an Ask with Each
	From    Source
	Refund  receipt.Refund // of the granted permits, if Receipt was set; nil if the Protocol has none
}

// Request is one caller's request for permits, and later its result. Protocol.Answer sets the result
// and Err.
type Request struct {
	Ask
	Result
	Err error

	state atomic.Int32 // a requestState
	batch *Batch       // that it is part of; nil for a waiter; guarded by the entry
	call  *Call        // that this caller reports, or nil
}

// The states of a request. The end of its call and a caller that leaves may meet: the first of the two
// changes inFlight. All other changes are made with the entry locked.
const (
	queued    = iota // not yet in a call
	inFlight         // in a call that is in flight
	answered         // the result is final
	abandoned        // the caller has left: permits that arrive for it are released
)

// answer makes the result of a request final, with the error of its call. It reports whether permits
// arrived for a caller that has left.
func (r *Request) answer(err error) (lost bool) {
	if err != nil {
		r.Err = err
	}
	for {
		state := r.state.Load()
		if state == abandoned {
			return err == nil && r.Allowed
		}
		if r.state.CompareAndSwap(state, answered) {
			return false
		}
	}
}
