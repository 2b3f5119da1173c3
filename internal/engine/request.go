package engine

import (
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

	// Of the receipt for the granted permits, if Receipt was set; nil if the Protocol has none.
	Refund, Return receipt.Refund
}

// Request is one caller's request for permits, and later its result. Protocol.Answer sets the result
// and Err.
type Request struct {
	Ask
	Result
	Err error

	state requestState // guarded by the entry
	batch *Batch       // that it is part of; nil for a waiter; guarded by the entry
	call  *Call        // that this caller reports, or nil
}

type requestState uint8

const (
	queued    requestState = iota // not yet in a call
	inFlight                      // in a call that is in flight
	answered                      // the result is final
	abandoned                     // the caller has left: permits that arrive for it are released
)

// deliver makes the answer of a request final, with the error of its call. It reports whether
// permits arrived for a caller that has left. The entry is locked.
func (r *Request) deliver(err error) (lost bool) {
	if r.state == abandoned {
		return err == nil && r.Allowed
	}
	if err != nil {
		r.Err = err
	}
	r.state = answered
	return false
}
